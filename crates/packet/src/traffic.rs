//! What traffic there is, as JSON: who sends what to whom.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};
use weir_aggregate::linked_ack::Release;
use weir_application::{ApplicationConfig, DatagramConfig, TcpConfig};

/// Traffic between two hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Unique.
    pub name: String,
    /// What its random numbers follow from, beside the seed; its name if absent.
    #[serde(default)]
    pub draws: Option<String>,
    /// The host that sends (and, of applications with two sides, serves).
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// From the beginning of the simulation.
    #[serde(default)]
    pub start_ns: u64,
    /// Likewise; nothing to go on to the end.
    #[serde(default)]
    pub stop_ns: Option<u64>,
    /// Code point of its packets, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// What makes its datagrams ECN-capable, though nothing answers to marks; connections decide
    /// by themselves.
    #[serde(default)]
    pub ecn: Option<EctConfig>,
    /// The relay that its connections pass, by the name of its traffic; greedy TCP only.
    #[serde(default)]
    pub through: Option<String>,
    /// What each of its connections has of the relay's aggregate, beside others'; 1 to 1000.
    #[serde(default = "one")]
    pub weight: u32,
    /// What it is.
    #[serde(rename = "application")]
    pub generator: GeneratorConfig,
}

impl TrafficConfig {
    pub(crate) fn draws(&self) -> &str {
        self.draws.as_deref().unwrap_or(&self.name)
    }
}

const fn one() -> u32 {
    1
}

/// A code point of ECN-capable transports.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EctConfig {
    /// ECT(0), classic ECN.
    Ect0,
    /// ECT(1), the identifier of L4S.
    Ect1,
}

/// What generates the packets of a traffic, told apart by its `kind`.
#[derive(Clone, Debug)]
pub enum GeneratorConfig {
    /// An application over TCP.
    Connections(ApplicationConfig),
    /// Datagrams over UDP.
    Datagrams(DatagramConfig),
    /// UDT, kind `udt`: greedy, by a rate of its own, over UDP.
    Udt,
    /// A relay, kind `relay`: it joins connections into one, from where it comes from to where it
    /// goes, and splits them again there.
    Relay(RelayConfig),
}

/// A relay's settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// Both sides of the aggregate, and what clients may send to it unread.
    #[serde(default)]
    pub tcp: TcpConfig,
    /// What an acknowledgement that a client gets means.
    #[serde(default)]
    pub linked_ack: LinkedAck,
}

/// How the acknowledgements of a client's leg, of the aggregate and of a server's leg are linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkedAck {
    /// Not: each leg's means that its own other end has the data.
    #[default]
    None,
    /// As the work prints it: by what all servers together have acknowledged.
    Literal,
    /// A client sees acknowledged what its own server has acknowledged: as the work's switches
    /// would, which hold the aggregate's acknowledgements, too, in the order of its bytes.
    Strict,
    /// The same, and only the clients' acknowledgements are held: as `weir relay` does.
    PerFlow,
}

impl LinkedAck {
    /// What of the aggregate's acknowledgements goes when, where they are held.
    pub(crate) fn release(self) -> Option<Release> {
        match self {
            Self::None | Self::PerFlow => None,
            Self::Literal => Some(Release::Literal),
            Self::Strict => Some(Release::Strict),
        }
    }

    /// What it is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Literal => "literal",
            Self::Strict => "strict",
            Self::PerFlow => "per-flow",
        }
    }
}

const UDT: &str = "udt";
const RELAY: &str = "relay";

impl GeneratorConfig {
    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Connections(application) => application.kind(),
            Self::Datagrams(datagrams) => datagrams.kind(),
            Self::Udt => UDT,
            Self::Relay(_) => RELAY,
        }
    }
}

impl<'de> Deserialize<'de> for GeneratorConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let kind = fields.get("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let kind = String::deserialize(kind).map_err(D::Error::custom)?;
        match kind.as_str() {
            UDT => match fields.keys().find(|key| *key != "kind") {
                Some(key) => Err(D::Error::unknown_field(key, &[])),
                None => Ok(Self::Udt),
            },
            RELAY => {
                fields.remove("kind");
                RelayConfig::deserialize(Value::Object(fields))
                    .map(Self::Relay)
                    .map_err(D::Error::custom)
            }
            kind if DatagramConfig::KINDS.contains(&kind) => {
                DatagramConfig::deserialize(Value::Object(fields))
                    .map(Self::Datagrams)
                    .map_err(D::Error::custom)
            }
            kind if ApplicationConfig::KINDS.contains(&kind) => {
                ApplicationConfig::deserialize(Value::Object(fields))
                    .map(Self::Connections)
                    .map_err(D::Error::custom)
            }
            kind => {
                let known = [&DatagramConfig::KINDS[..], &[UDT, RELAY], &ApplicationConfig::KINDS];
                let known = known.concat().join("`, `");
                Err(D::Error::custom(format_args!(
                    "unknown variant `{kind}`, expected one of `{known}`"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds that serde reads, by what it says of one that it does not.
    fn read<'de, T: Deserialize<'de> + std::fmt::Debug>() -> String {
        let error = T::deserialize(serde_json::json!({"kind": "dance"})).expect_err("no kind");
        error.to_string()
    }

    #[test]
    fn every_kind_that_is_read_is_known() {
        let known = |kinds: &[&str]| {
            format!("unknown variant `dance`, expected one of `{}`", kinds.join("`, `"))
        };
        assert_eq!(read::<ApplicationConfig>(), known(&ApplicationConfig::KINDS));
        assert_eq!(read::<DatagramConfig>(), known(&DatagramConfig::KINDS));
    }
}
