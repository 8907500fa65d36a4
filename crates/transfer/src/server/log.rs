//! What a server tells of its work: who did what, with what outcome; bounded, whoever asks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::TransferError;
use crate::escape::printable;

/// Lines about strangers: so many at once, and so many a second.
const STRANGERS: Limit = Limit { burst: 20.0, per_s: 2.0 };
/// Lines about known clients and the server itself.
const KNOWN: Limit = Limit { burst: 1000.0, per_s: 100.0 };

/// One thing that a server tells, safe to print: no text of it disturbs a terminal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// `transfer`, `refused` or `trouble`.
    pub event: &'static str,
    /// The name in the client's certificate.
    pub client: Option<String>,
    /// The peer's address and port.
    pub address: Option<String>,
    /// What was asked for and what became of it.
    pub transfer: Option<Account>,
    /// What went wrong, in words; empty when nothing did.
    pub message: String,
    /// Lines like this one that were left out since the last one.
    pub left_out: u64,
}

/// One request of a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// `put` or `get`.
    pub request: &'static str,
    /// The destination or the sources, as the client named them.
    pub path: String,
    /// Files that stand verified (`put`) or were sent (`get`).
    pub files: u64,
    /// Bytes that are durable (`put`) or were sent (`get`).
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// What takes a server's entries; called from its threads, so it must not wait.
pub type Log = Arc<dyn Fn(&Entry) + Send + Sync>;

impl Entry {
    /// Something about a peer that came to nothing.
    pub(super) fn refused(address: &str, client: Option<&str>, why: &dyn fmt::Display) -> Self {
        Self {
            event: "refused",
            client: client.map(printable),
            address: Some(printable(address)),
            message: printable(&why.to_string()),
            ..Self::default()
        }
    }

    /// Something about this host.
    pub(super) fn trouble(why: &dyn fmt::Display) -> Self {
        Self { event: "trouble", message: printable(&why.to_string()), ..Self::default() }
    }

    /// A request and its outcome.
    pub(super) fn transfer(
        address: &str,
        client: Option<&str>,
        account: Account,
        outcome: Option<&TransferError>,
    ) -> Self {
        Self {
            event: "transfer",
            client: client.map(printable),
            address: Some(printable(address)),
            transfer: Some(Account { path: printable(&account.path), ..account }),
            message: outcome.map_or_else(String::new, |error| printable(&error.to_string())),
            left_out: 0,
        }
    }
}

/// For people: `client address: request "path": files, bytes, seconds: outcome`.
impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(client) = &self.client {
            write!(out, "{client} ")?;
        }
        if let Some(address) = &self.address {
            write!(out, "{address}: ")?;
        }
        if let Some(Account { request, path, files, bytes, seconds }) = &self.transfer {
            write!(out, "{request} \"{path}\": {files} files, {bytes} B in {seconds:.1} s: ")?;
        }
        let message = if self.message.is_empty() { "done" } else { &self.message };
        write!(out, "{message}")?;
        if self.left_out > 0 {
            write!(out, " ({} lines like this were left out)", self.left_out)?;
        }
        Ok(())
    }
}

/// So many lines at once, and so many more a second.
#[derive(Clone, Copy)]
struct Limit {
    burst: f64,
    per_s: f64,
}

/// A bucket of tokens, one a line.
struct Bucket {
    limit: Limit,
    tokens: f64,
    filled: Instant,
    left_out: u64,
}

/// Passes on what the limits allow.
pub(super) struct Journalist {
    log: Log,
    strangers: Mutex<Bucket>,
    known: Mutex<Bucket>,
}

impl Bucket {
    fn new(limit: Limit) -> Mutex<Self> {
        let (tokens, filled) = (limit.burst, Instant::now());
        Mutex::new(Self { limit, tokens, filled, left_out: 0 })
    }

    /// Takes a token; says how many lines went without one since the last that got one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let span: Duration = now.saturating_duration_since(self.filled);
        let filled = self.tokens + span.as_secs_f64() * self.limit.per_s;
        (self.tokens, self.filled) = (filled.min(self.limit.burst), now);
        if self.tokens < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Journalist {
    pub(super) fn new(log: Log) -> Self {
        Self { log, strangers: Bucket::new(STRANGERS), known: Bucket::new(KNOWN) }
    }

    /// Tells, unless there was too much of the kind lately.
    pub(super) fn tell(&self, entry: Entry) {
        let stranger = entry.event == "refused" && entry.client.is_none();
        let bucket = if stranger { &self.strangers } else { &self.known };
        let token = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        if let Some(left_out) = token {
            (self.log)(&Entry { left_out, ..entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_of_in_a_few_lines_and_its_size_is() {
        let start = Instant::now();
        let mut bucket = Bucket::new(STRANGERS).into_inner().unwrap();
        let told = (0..10_000).filter(|_| bucket.take(start).is_some()).count();
        assert_eq!(told, 20);
        assert_eq!(bucket.take(start + Duration::from_secs(1)), Some(9_980));
    }

    #[test]
    fn no_peer_forges_a_line() {
        let account =
            Account { request: "put", path: "a\n1.2.3.4:5: done".into(), ..Account::default() };
        let line = Entry::transfer("10.0.0.1:9", Some("dtn\x1b7"), account, None).to_string();
        assert_eq!(
            line,
            "dtn\\x1b7 10.0.0.1:9: put \"a\\n1.2.3.4:5: done\": 0 files, 0 B in 0.0 s: done"
        );
    }
}
