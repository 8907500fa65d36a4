//! Clients that a controller has announced: they may come, and it says as which flow (003-spec
//! section 2.4).
//!
//! The controller gives the UIDs then, so an announcement is kept until it is taken back, also when
//! its connection is over: the next connection of the same client's port has the same UID.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::control::locked;
use weir_aggregate::frame::Uid;

/// What a client has offered in its SYN; its server is to be offered the same, where the kernel
/// lets that be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The longest segment that it takes.
    pub mss: Option<u16>,
    /// By how many bits its windows are shifted; none: they are not.
    pub window_scale: Option<u8>,
    /// Whether it takes selective acknowledgements.
    pub has_sack: bool,
    /// Whether it takes timestamps.
    pub has_timestamps: bool,
}

/// A client that may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The number of its flow.
    pub uid: Uid,
    /// Its server.
    pub server: SocketAddr,
    /// From where the split end is to connect to that server.
    pub source: Option<SocketAddr>,
    /// What the server is to be offered.
    pub offered: Offered,
}

/// What has become of a client that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not come.
    Awaited,
    /// Its connection is there.
    Here,
    /// Its connection was there, and neither end has anything left of it.
    Over,
}

/// All that were announced, by the client's address; shared by a relay and its owner.
#[derive(Clone, Debug, Default)]
pub struct Announced(Arc<Mutex<HashMap<SocketAddr, (Announcement, Stage)>>>);

impl Announced {
    /// Announces a client, or corrects what was said of it.
    pub fn announce(&self, client: SocketAddr, what: Announcement) {
        let mut all = locked(&self.0);
        // Said twice, it is no other: whoever is here stays.
        if all.get(&client).is_none_or(|(before, _)| *before != what) {
            all.insert(client, (what, Stage::Awaited));
        }
    }

    /// Takes an announcement back; a connection that is there goes on.
    pub fn forget(&self, client: SocketAddr) {
        locked(&self.0).remove(&client);
    }

    /// Everybody who was announced, and what has become of them; or only those who are not here,
    /// which are few where there are many.
    pub fn all(&self, is_all: bool) -> Vec<(SocketAddr, Announcement, Stage)> {
        let all = locked(&self.0);
        let told = all.iter().filter(|(_, (_, stage))| is_all || *stage != Stage::Here);
        told.map(|(client, (what, stage))| (*client, *what, *stage)).collect()
    }

    /// What was said of a client.
    pub(crate) fn of(&self, client: SocketAddr) -> Option<Announcement> {
        locked(&self.0).get(&plain(client)).map(|(what, _)| *what)
    }

    /// What becomes of a client: `uid` is that of its connection.
    pub(crate) fn note(&self, client: SocketAddr, uid: Uid, stage: Stage) {
        if let Some((what, now)) = locked(&self.0).get_mut(&plain(client))
            && what.uid == uid
        {
            *now = stage;
        }
    }

    /// All connections are gone, with the aggregate.
    pub(crate) fn note_all_gone(&self) {
        for (_, stage) in locked(&self.0).values_mut() {
            if *stage == Stage::Here {
                *stage = Stage::Over;
            }
        }
    }
}

/// An address of IPv4 as such, also where a socket of both IPs has accepted it.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(uid: Uid) -> Announcement {
        let server = SocketAddr::from(([10, 0, 0, 9], 443));
        Announcement { uid, server, source: None, offered: Offered::default() }
    }

    #[test]
    fn who_is_announced_again_stays_and_who_is_another_begins_anew() {
        let all = Announced::default();
        let client = SocketAddr::from(([10, 0, 0, 1], 5_000));
        all.announce(client, announcement(7));
        all.note(client, 7, Stage::Here);
        all.announce(client, announcement(7));
        assert_eq!(all.all(true), [(client, announcement(7), Stage::Here)]);
        assert_eq!(all.all(false), []);
        all.announce(client, announcement(8));
        assert_eq!(all.all(false), [(client, announcement(8), Stage::Awaited)]);
        // What is left of the connection before says nothing of this one.
        all.note(client, 7, Stage::Over);
        assert_eq!(all.all(true), [(client, announcement(8), Stage::Awaited)]);
        all.forget(client);
        assert_eq!(all.of(client), None);
    }

    #[test]
    fn a_client_of_ipv4_is_one_at_a_socket_of_both() {
        let all = Announced::default();
        all.announce(SocketAddr::from(([10, 0, 0, 1], 5_000)), announcement(7));
        let seen: SocketAddr = "[::ffff:10.0.0.1]:5000".parse().expect("an address");
        assert_eq!(all.of(seen), Some(announcement(7)));
    }
}
