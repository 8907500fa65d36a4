//! What to emulate: read from JSON, checked before anything is started.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use serde::Deserialize;
use weir_link::{Channel, ChannelConfig, LinkError, Stations};
use weir_queue::Random;
use weir_units::Bytes;

use crate::Pipe;
use crate::segment::Segment;

/// Longest interface name that Linux accepts.
const MAX_DEVICE_NAME: usize = 15;
/// The MTU that IPv4 asks for at least (RFC 791) and the longest packet that a TUN device takes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;

/// What the directions are called, for their random numbers and for messages.
const WAYS: [&str; 2] = ["forward", "backward"];

/// Why a configuration cannot be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON, or a key that is unknown, missing or of the wrong type.
    #[error("emulator configuration: {0}")]
    Json(#[from] serde_json::Error),
    /// A value that no link can have.
    #[error("link \"{link}\": {key} = {value}: {reason}")]
    Value {
        /// The link's name.
        link: String,
        /// The key, with its place: "forward.rate_bps".
        key: String,
        /// What was given.
        value: String,
        /// What is wrong with it, or what would be right.
        reason: String,
    },
    /// A channel that cannot be.
    #[error("channel \"{channel}\": {reason}")]
    Channel {
        /// Its name.
        channel: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A network namespace that is not there.
    #[error("link \"{link}\": {key} = {path:?}: {source}")]
    Namespace {
        /// The link's name.
        link: String,
        /// The key, with its place: "a.netns".
        key: String,
        /// What was given.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// A checked configuration, with every namespace file open.
#[derive(Debug)]
pub struct Config {
    /// The wired ones.
    pub(crate) links: Vec<LinkConfig>,
    pub(crate) cells: Vec<CellConfig>,
    /// The number of each link.
    pub(crate) order: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct LinkConfig {
    pub(crate) name: String,
    pub(crate) ends: [EndConfig; 2],
    /// Forward (a to b) and backward.
    pub(crate) directions: [DirectionConfig; 2],
}

/// A channel and the links that share it.
#[derive(Debug)]
pub(crate) struct CellConfig {
    pub(crate) name: String,
    config: ChannelConfig,
    seed: u64,
    pub(crate) links: Vec<CellLink>,
}

#[derive(Debug)]
pub(crate) struct CellLink {
    pub(crate) name: String,
    pub(crate) ends: [EndConfig; 2],
    /// Who has the ends a and b.
    stations: [String; 2],
    directions: [weir_link::DirectionConfig; 2],
    mtu: u32,
}

#[derive(Debug)]
pub(crate) struct EndConfig {
    pub(crate) netns: PathBuf,
    pub(crate) namespace: File,
    pub(crate) device: String,
    pub(crate) mtu: u32,
    /// Whether the device carries Ethernet frames, as a switch's port does, and not IP packets.
    pub(crate) ethernet: bool,
}

#[derive(Debug)]
pub(crate) struct DirectionConfig {
    config: weir_link::DirectionConfig,
    seed: u64,
    link: String,
    way: &'static str,
    mtu: u32,
}

impl DirectionConfig {
    pub(crate) fn into_pipe(self) -> Pipe<Segment> {
        self.build().expect("it was built once when the configuration was read")
    }

    fn build(&self) -> Result<Pipe<Segment>, LinkError> {
        let random = |source: &str| Random::of_source(self.seed, &[&self.link, self.way, source]);
        self.config.build(Bytes::new(self.mtu.into()), random)
    }
}

impl CellConfig {
    /// The channel, whose ports are the links' directions, link by link, forward first.
    pub(crate) fn build(&self) -> Channel<Segment> {
        let stations = Stations::new(&self.name, &self.config, self.seed);
        let mut stations = stations.expect("it was built once when the configuration was read");
        for link in &self.links {
            link.join(&mut stations).expect("it joined when the configuration was read");
        }
        stations.into_channel()
    }
}

impl CellLink {
    /// Adds both directions; the one that cannot be, and why.
    fn join(&self, stations: &mut Stations<Segment>) -> Result<(), (&'static str, LinkError)> {
        let mtu = Bytes::new(self.mtu.into());
        let ways = WAYS.into_iter().zip(&self.stations).zip(&self.directions);
        for ((way, station), config) in ways {
            let added = stations.add(station, (&self.name, way), config, mtu);
            added.map_err(|error| (way, error))?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigText {
    seed: u64,
    #[serde(default)]
    channels: Vec<ChannelText>,
    links: Vec<LinkText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelText {
    name: String,
    config: ChannelConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    name: String,
    a: EndText,
    b: EndText,
    forward: weir_link::DirectionConfig,
    backward: weir_link::DirectionConfig,
    /// The channel of a wireless link.
    #[serde(default)]
    channel: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndText {
    netns: PathBuf,
    device: String,
    mtu: u32,
    #[serde(default)]
    ethernet: bool,
    /// Whose end it is, where that is a station.
    #[serde(default)]
    station: String,
}

impl Config {
    /// Reads and checks a configuration; opens every namespace file it names.
    ///
    /// # Errors
    /// [`ConfigError`], which names the link and the key.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let text: ConfigText = serde_json::from_str(text)?;
        let mut config = Self { links: Vec::new(), cells: Vec::new(), order: HashMap::new() };
        let mut found = Vec::new();
        for channel in text.channels {
            found.push(config.add_channel(channel, text.seed)?);
        }
        for (number, link) in text.links.into_iter().enumerate() {
            let name = link.name.clone();
            if let Some(channel) = link.channel.clone() {
                config.add_wireless(link, &channel, &mut found)?;
            } else {
                config.links.push(link.check(text.seed)?);
            }
            if config.order.insert(name.clone(), number).is_some() {
                let place = Place { link: &name, part: "" };
                return Err(place.wrong("name", &name, "is the name of two links"));
            }
        }
        if let Some(unused) = config.cells.iter().find(|cell| cell.links.is_empty()) {
            let reason = "it has no stations, for no link uses it".to_owned();
            return Err(ConfigError::Channel { channel: unused.name.clone(), reason });
        }
        Ok(config)
    }

    /// A cell without links, and its stations, of which there are none.
    fn add_channel(
        &mut self,
        text: ChannelText,
        seed: u64,
    ) -> Result<Stations<Segment>, ConfigError> {
        let ChannelText { name, config } = text;
        let wrong = |reason| ConfigError::Channel { channel: name.clone(), reason };
        if self.cells.iter().any(|cell| cell.name == name) {
            return Err(wrong("there are two of that name".to_owned()));
        }
        let stations =
            Stations::new(&name, &config, seed).map_err(|error| wrong(error.to_string()))?;
        self.cells.push(CellConfig { name, config, seed, links: Vec::new() });
        Ok(stations)
    }

    fn add_wireless(
        &mut self,
        link: LinkText,
        channel: &str,
        found: &mut [Stations<Segment>],
    ) -> Result<(), ConfigError> {
        let name = link.name.clone();
        let place = |part| Place { link: &name, part };
        let Some(number) = self.cells.iter().position(|cell| cell.name == channel) else {
            return Err(place("").wrong("channel", channel, "there is no such channel"));
        };
        let link = link.check_wireless()?;
        let joined = link.join(&mut found[number]);
        joined.map_err(|(way, error)| place(way).wrong(&error.key, &error.value, &error.reason))?;
        self.cells[number].links.push(link);
        Ok(())
    }
}

/// Where a value stands, for messages.
#[derive(Clone, Copy)]
struct Place<'a> {
    link: &'a str,
    /// "a", "forward", or nothing.
    part: &'a str,
}

impl Place<'_> {
    fn key(self, key: &str) -> String {
        if self.part.is_empty() { key.to_owned() } else { format!("{}.{key}", self.part) }
    }

    fn wrong(self, key: &str, value: impl ToString, reason: &str) -> ConfigError {
        ConfigError::Value {
            link: self.link.to_owned(),
            key: self.key(key),
            value: value.to_string(),
            reason: reason.to_owned(),
        }
    }
}

impl LinkText {
    fn check(self, seed: u64) -> Result<LinkConfig, ConfigError> {
        let (name, mtu) = (self.name, self.a.mtu.max(self.b.mtu));
        let direction = |config: weir_link::DirectionConfig, way: &'static str| {
            let direction = DirectionConfig { config, seed, link: name.clone(), way, mtu };
            let place = Place { link: &name, part: way };
            match direction.build() {
                Ok(_) => Ok(direction),
                Err(error) => Err(place.wrong(&error.key, &error.value, &error.reason)),
            }
        };
        let [forward, backward] = WAYS;
        let directions = [direction(self.forward, forward)?, direction(self.backward, backward)?];
        let end = |text: EndText, part| text.check(Place { link: &name, part });
        let ends = [end(self.a, "a")?, end(self.b, "b")?];
        Ok(LinkConfig { ends, directions, name })
    }

    fn check_wireless(self) -> Result<CellLink, ConfigError> {
        let (name, mtu) = (self.name, self.a.mtu.max(self.b.mtu));
        let stations = [self.a.station.clone(), self.b.station.clone()];
        if stations[0].is_empty() || stations[0] == stations[1] {
            let reason = "the ends of a wireless link are two stations, each with its name";
            let place = Place { link: &name, part: "a" };
            return Err(place.wrong("station", format!("{:?}", stations[0]), reason));
        }
        let end = |text: EndText, part| {
            let place = Place { link: &name, part };
            if text.ethernet {
                let reason = "a station has packets for its channel, no frames";
                return Err(place.wrong("ethernet", true, reason));
            }
            text.check(place)
        };
        let ends = [end(self.a, "a")?, end(self.b, "b")?];
        Ok(CellLink { directions: [self.forward, self.backward], name, ends, stations, mtu })
    }
}

impl EndText {
    fn check(self, place: Place<'_>) -> Result<EndConfig, ConfigError> {
        let Self { netns, device, mtu, ethernet, station: _ } = self;
        let usable = |c: char| c.is_ascii_graphic() && c != '/' && c != '%' && c != ':';
        if device.is_empty() || device.len() > MAX_DEVICE_NAME || !device.chars().all(usable) {
            let reason = "an interface name has 1 to 15 printable characters, none of / % :";
            return Err(place.wrong("device", format!("{device:?}"), reason));
        }
        if !MTU_RANGE.contains(&mtu) {
            return Err(place.wrong("mtu", mtu, "an MTU is from 68 to 65535 bytes"));
        }
        let namespace = File::open(&netns).map_err(|source| ConfigError::Namespace {
            link: place.link.to_owned(),
            key: place.key("netns"),
            path: netns.clone(),
            source,
        })?;
        Ok(EndConfig { netns, namespace, device, mtu, ethernet })
    }
}
