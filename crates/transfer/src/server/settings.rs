//! How a server serves, as its owner says.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use weir_units::Time;

use super::export::{self, Export};
use super::rights::{self, Grant};
use crate::control;
use crate::error::TransferError;

/// The least that can be asked for: an honest client must be able to begin.
const IDLE_MIN: Time = Time::from_ms(1_000);

/// As many as a session has data connections.
const PORTS_MAX: u16 = 64;

/// How a server serves.
#[derive(Clone)]
pub struct ServerSettings {
    /// Host and port to listen on; port 0 lets the system choose.
    pub listen: String,
    /// How many ports, from that one on; with port 0 the system chooses each. Any connection of a
    /// session may come at any of them, so a network can tell what is to take another path.
    pub ports: u16,
    /// What is served.
    pub exports: Vec<Export>,
    /// Keys; without them anyone who can connect may do what the roots allow.
    pub tls: Option<Arc<ServerConfig>>,
    /// Everything received counts as durable only once it is on the disk.
    pub sync: bool,
    /// A peer that says nothing for this long during an operation is gone; 5 s or more.
    pub silence: Time,
    /// A session in which nothing is done for this long ends, signs of life or not; 1 s or more.
    pub idle: Time,
    /// Bytes that stay free of each file system; `None` is 1 % of it, at most 1 GB.
    pub reserve: Option<u64>,
    /// Bytes that each root may hold, or with rights each path of a grant.
    pub quota: Option<u64>,
    /// Which client may do what; `None` lets every one do what the roots allow. Needs `tls`.
    pub rights: Option<Vec<Grant>>,
    /// A list of clients whose certificates do not count any more (`keys::revoke`), read anew
    /// for every connection.
    pub revoked: Option<PathBuf>,
}

impl ServerSettings {
    /// Refuses what cannot be served so.
    pub(super) fn check(&self) -> Result<(), TransferError> {
        export::check(&self.exports)?;
        check_ports(self.ports)?;
        control::check_silence(self.silence)?;
        check_idle(self.idle)?;
        check_rights(self)
    }
}

fn check_ports(ports: u16) -> Result<(), TransferError> {
    if !(1..=PORTS_MAX).contains(&ports) {
        let (item, value) = ("ports", ports.to_string());
        return Err(TransferError::Setting { item, value, why: "1 to 64 are allowed" });
    }
    Ok(())
}

fn check_idle(idle: Time) -> Result<(), TransferError> {
    if idle < IDLE_MIN {
        let (item, value) = ("idle", idle.to_string());
        return Err(TransferError::Setting { item, value, why: "at least 1 s is needed" });
    }
    Ok(())
}

fn check_rights(settings: &ServerSettings) -> Result<(), TransferError> {
    match &settings.rights {
        Some(_) if settings.tls.is_none() => Err(TransferError::Setting {
            item: "rights",
            value: "without keys".to_owned(),
            why: "only certificates tell one client from another",
        }),
        Some(grants) => rights::check(grants, &settings.exports),
        None => Ok(()),
    }
}
