//! What to run, as JSON. Keys end in their unit.

use std::net::Ipv4Addr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_application::{
    Application, ApplicationConfig, ApplicationError, DatagramConfig, Paced, TcpConfig,
};

use crate::LiveError;

/// One application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The scenario's: every random choice follows from it.
    pub seed: u64,
    /// The traffic's.
    pub name: String,
    /// Where connections are accepted.
    pub address: Ipv4Addr,
    /// Likewise.
    pub port: u16,
    /// Code point of all packets, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// As the simulator has it. Without `congestion` the host's own control is used, and buffers
    /// are those of the host.
    pub application: ApplicationConfig,
    /// A congestion control of the kernel.
    #[serde(default)]
    pub congestion: Option<String>,
    /// Whether each request of web load is told; it takes memory for as long as the traffic lasts.
    #[serde(default)]
    pub keep_requests: bool,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`LiveError::Value`], with the path of the key.
    pub fn from_json(text: &str) -> Result<Self, LiveError> {
        from_json(text)
    }

    /// The application, and what its connections are to be like.
    pub(crate) fn build(&self) -> Result<(Application, TcpConfig), LiveError> {
        let wrong = |reason: &str| LiveError::value(format!("traffic {:?}", self.name), reason);
        if self.dscp > 63 {
            return Err(wrong("dscp: 0 to 63 is allowed"));
        }
        let built = self.application.build(self.seed, &self.name);
        let application = built.map_err(|error| wrong(&error.to_string()))?;
        let tcp = self.application.tcp();
        if matches!(application, Application::Bulk(_)) {
            return Err(wrong("greedy transfers are left to iperf3"));
        }
        if tcp.rto_restart || tcp.probe_restart || tcp.bundling {
            return Err(wrong("the kernel has no rto_restart, probe_restart or bundling"));
        }
        Ok((application, tcp.clone()))
    }
}

/// One traffic of UDP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramsConfig {
    /// Where packets go.
    pub address: Ipv4Addr,
    /// Likewise.
    pub port: u16,
    /// Code point of all packets, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// Their ECN field, 0 to 3.
    #[serde(default)]
    pub ecn: u8,
    /// As the simulator has it: what has packets of one size and a rate.
    pub source: DatagramConfig,
}

impl DatagramsConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`LiveError::Value`], with the path of the key.
    pub fn from_json(text: &str) -> Result<Self, LiveError> {
        from_json(text)
    }

    /// When packets leave, counted from the beginning.
    pub(crate) fn packets(&self) -> Result<Paced, LiveError> {
        if self.dscp > 63 || self.ecn > 3 {
            return Err(LiveError::value("datagrams", "dscp is 0 to 63, ecn 0 to 3"));
        }
        let refused = |error: ApplicationError| LiveError::value("source", error.to_string());
        let packets = self.source.paced().map_err(refused)?;
        if packets.payload() == 0 {
            return Err(LiveError::value("source", "a payload of 1 B or more is sent"));
        }
        Ok(packets)
    }
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, LiveError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| LiveError::value(error.path().to_string(), error.inner().to_string()))
}
