//! The hosts that receive, or send, one transfer together: what each has taken or given, which were
//! lost, and how sessions with the others than the first one begin.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use crate::helper::Opening;

/// The other hosts of an operation.
pub(crate) struct Others<'a> {
    /// What people call each.
    pub(crate) names: Vec<String>,
    /// Begins to open a session with one of them.
    pub(crate) open: &'a (dyn Fn(usize) -> Opening + Sync),
    /// One that owes something and does nothing for this long is done without.
    pub(crate) silence: Duration,
}

/// One of several receiving, or sending, hosts, over all attempts of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostShare {
    /// What its user calls it: host and port.
    pub name: String,
    /// Content that was handed to its connections, or came on them, zeros of holes not among it.
    /// What is sent again counts again, wherever it goes.
    pub bytes: u64,
    /// Why it is done without, if it is.
    pub lost: Option<Loss>,
}

/// That a host is done without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When that was seen.
    pub at: SystemTime,
    /// Why, in words.
    pub why: String,
}

#[derive(Debug)]
struct Host {
    name: String,
    bytes: AtomicU64,
    lost: Mutex<Option<Loss>>,
}

/// All of them, the first one first; nobody where one host receives, or sends, all.
#[derive(Debug, Default)]
pub(crate) struct Hosts(OnceLock<Vec<Host>>);

impl Hosts {
    /// Those that a transfer is to have, once.
    pub(crate) fn name(&self, names: Vec<String>) {
        let host = |name| Host { name, bytes: AtomicU64::new(0), lost: Mutex::default() };
        // A second call has nothing new to say.
        let _ = self.0.set(names.into_iter().map(host).collect());
    }

    fn host(&self, number: usize) -> Option<&Host> {
        self.0.get()?.get(number)
    }

    /// Content was handed to a connection of that host, or came on one.
    pub(crate) fn add(&self, number: usize, bytes: u64) {
        self.host(number).inspect(|host| {
            host.bytes.fetch_add(bytes, Relaxed);
        });
    }

    /// It is done without from now on; the first reason stands.
    pub(crate) fn lose(&self, number: usize, why: &str) {
        self.host(number).inspect(|host| {
            host.lost().get_or_insert_with(|| Loss { at: SystemTime::now(), why: why.to_owned() });
        });
    }

    /// It is there, or there again.
    pub(crate) fn find(&self, number: usize) {
        self.host(number).inspect(|host| *host.lost() = None);
    }

    pub(crate) fn shares(&self) -> Vec<HostShare> {
        let share = |host: &Host| HostShare {
            name: host.name.clone(),
            bytes: host.bytes.load(Relaxed),
            lost: host.lost().clone(),
        };
        self.0.get().into_iter().flatten().map(share).collect()
    }
}

impl Host {
    fn lost(&self) -> MutexGuard<'_, Option<Loss>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_own_bytes_and_stays_lost_until_it_is_found() {
        let hosts = Hosts::default();
        hosts.add(0, 7);
        hosts.lose(1, "nobody is there");
        assert_eq!(hosts.shares(), []);
        hosts.name(vec!["a:1".to_owned(), "b:2".to_owned()]);
        hosts.add(0, 7);
        hosts.add(1, 5);
        hosts.add(1, 6);
        hosts.add(2, 9);
        let began = SystemTime::now();
        hosts.lose(1, "it is silent");
        hosts.lose(1, "it is closed");
        let [first, second] = &hosts.shares()[..] else { panic!("two have names") };
        assert_eq!((first.name.as_str(), first.bytes, &first.lost), ("a:1", 7, &None));
        assert_eq!((second.name.as_str(), second.bytes), ("b:2", 11));
        let loss = second.lost.as_ref().unwrap();
        assert!(loss.why == "it is silent" && loss.at >= began && loss.at <= SystemTime::now());
        hosts.find(1);
        assert_eq!(hosts.shares()[1].lost, None);
    }
}
