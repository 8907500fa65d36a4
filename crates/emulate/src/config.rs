//! What to emulate: read from JSON, checked before anything is started.

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;

use serde::Deserialize;
use weir_link::LinkError;
use weir_queue::Random;
use weir_units::Bytes;

use crate::Pipe;
use crate::segment::Segment;

/// Longest interface name that Linux accepts.
const MAX_DEVICE_NAME: usize = 15;
/// The MTU that IPv4 asks for at least (RFC 791) and the longest packet that a TUN device takes.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;

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
    pub(crate) links: Vec<LinkConfig>,
}

#[derive(Debug)]
pub(crate) struct LinkConfig {
    pub(crate) name: String,
    pub(crate) ends: [EndConfig; 2],
    /// Forward (a to b) and backward.
    pub(crate) directions: [DirectionConfig; 2],
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigText {
    seed: u64,
    links: Vec<LinkText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    name: String,
    a: EndText,
    b: EndText,
    forward: weir_link::DirectionConfig,
    backward: weir_link::DirectionConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndText {
    netns: PathBuf,
    device: String,
    mtu: u32,
    #[serde(default)]
    ethernet: bool,
}

impl Config {
    /// Reads and checks a configuration; opens every namespace file it names.
    ///
    /// # Errors
    /// [`ConfigError`], which names the link and the key.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let text: ConfigText = serde_json::from_str(text)?;
        let mut names = HashSet::new();
        let links = text.links.into_iter().map(|link| {
            if !names.insert(link.name.clone()) {
                let place = Place { link: &link.name, part: "" };
                return Err(place.wrong("name", &link.name, "is the name of two links"));
            }
            link.check(text.seed)
        });
        Ok(Self { links: links.collect::<Result<_, _>>()? })
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
        let directions =
            [direction(self.forward, "forward")?, direction(self.backward, "backward")?];
        let end = |text: EndText, part| text.check(Place { link: &name, part });
        let ends = [end(self.a, "a")?, end(self.b, "b")?];
        Ok(LinkConfig { ends, directions, name })
    }
}

impl EndText {
    fn check(self, place: Place<'_>) -> Result<EndConfig, ConfigError> {
        let Self { netns, device, mtu, ethernet } = self;
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
