//! What to emulate: read from JSON, checked before anything is started.

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;

use serde::Deserialize;
use weir_queue::{DisciplineConfig, Limit, Packet, QueueError, Random};
use weir_units::{Bytes, Rate, Time};

use crate::{Delay, Loss, Pipe};

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
}

#[derive(Debug)]
pub(crate) struct DirectionConfig {
    rate: Option<Rate>,
    delay: Delay,
    loss: Loss,
    /// Checked.
    queue: DisciplineConfig,
    random: Random,
}

impl DirectionConfig {
    pub(crate) fn into_pipe<P: Packet + Send + 'static>(self) -> Pipe<P> {
        let queue = self.queue.build(self.rate, self.random).expect("checked when it was read");
        Pipe::new(self.loss, queue, self.rate, self.delay)
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
    forward: DirectionText,
    backward: DirectionText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndText {
    netns: PathBuf,
    device: String,
    mtu: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectionText {
    rate_bps: Option<u64>,
    #[serde(default)]
    delay_ns: u64,
    #[serde(default)]
    jitter_ns: u64,
    #[serde(default)]
    loss: Option<LossText>,
    queue: DisciplineConfig,
}

#[derive(Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
enum LossText {
    Bernoulli { probability: f64 },
    GilbertElliott { p: f64, r: f64, h: f64, k: f64 },
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

    fn probability(self, key: &str, value: f64) -> Result<f64, ConfigError> {
        if (0.0..=1.0).contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(key, value, "a probability is from 0 to 1"))
    }
}

impl LinkText {
    fn check(self, seed: u64) -> Result<LinkConfig, ConfigError> {
        let (name, mtu) = (self.name, self.a.mtu.max(self.b.mtu));
        let direction =
            |text: DirectionText, part| text.check(Place { link: &name, part }, seed, mtu);
        let directions =
            [direction(self.forward, "forward")?, direction(self.backward, "backward")?];
        let end = |text: EndText, part| text.check(Place { link: &name, part });
        let ends = [end(self.a, "a")?, end(self.b, "b")?];
        Ok(LinkConfig { ends, directions, name })
    }
}

impl EndText {
    fn check(self, place: Place<'_>) -> Result<EndConfig, ConfigError> {
        let Self { netns, device, mtu } = self;
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
        Ok(EndConfig { netns, namespace, device, mtu })
    }
}

impl DirectionText {
    fn check(self, place: Place<'_>, seed: u64, mtu: u32) -> Result<DirectionConfig, ConfigError> {
        if self.rate_bps == Some(0) {
            return Err(place.wrong("rate_bps", 0, "a link of rate 0 carries nothing"));
        }
        let rate = self.rate_bps.map(Rate::from_bit_per_s);
        let random = |source| Random::of_source(seed, &[place.link, place.part, source]);
        let (delay, jitter) = (Time::from_ns(self.delay_ns), Time::from_ns(self.jitter_ns));
        Ok(DirectionConfig {
            rate,
            delay: Delay::new(delay, jitter, random("jitter")),
            loss: match self.loss {
                None => Loss::None,
                Some(loss) => loss.check(place, random("loss"))?,
            },
            queue: checked(self.queue, place, rate, mtu)?,
            random: random("queue"),
        })
    }
}

impl LossText {
    fn check(self, place: Place<'_>, random: Random) -> Result<Loss, ConfigError> {
        Ok(match self {
            Self::Bernoulli { probability } => {
                let probability = place.probability("loss.probability", probability)?;
                Loss::Bernoulli { probability, random }
            }
            Self::GilbertElliott { p, r, h, k } => Loss::GilbertElliott {
                p: place.probability("loss.p", p)?,
                r: place.probability("loss.r", r)?,
                h: place.probability("loss.h", h)?,
                k: place.probability("loss.k", k)?,
                bad: false,
                random,
            },
        })
    }
}

fn checked(
    queue: DisciplineConfig,
    place: Place<'_>,
    rate: Option<Rate>,
    mtu: u32,
) -> Result<DisciplineConfig, ConfigError> {
    queue.check(rate).map_err(|error| match error {
        QueueError::Domain { key, value, reason } => {
            place.wrong(&format!("queue.{key}"), value, reason)
        }
        other => place.wrong("queue", "", &other.to_string()),
    })?;
    let classes = queue.split();
    let limit = queue.limit(rate);
    let (too_small, shown) = match (limit, limit.split(classes)) {
        (Limit::Bytes(all), Limit::Bytes(each)) => {
            (each < Bytes::new(mtu.into()), format!("{} bytes", all.count()))
        }
        (Limit::Packets(all), Limit::Packets(each)) => (each == 0, format!("{all} packets")),
        _ => (false, String::new()),
    };
    if !too_small {
        return Ok(queue);
    }
    let each = match classes {
        1 => String::new(),
        2 => " in each of the two classes".to_owned(),
        n => format!(" in each of the {n} classes"),
    };
    let reason = format!("does not hold one packet of {mtu} bytes{each}");
    Err(place.wrong("queue.limit", shown, &reason))
}
