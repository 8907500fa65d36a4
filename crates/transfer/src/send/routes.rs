//! Several routes: what each may take, and which are given up.
//!
//! A route whose packets are lost, or that is so slow in the end that the last file would wait for
//! it, is no end of the transfer: the attempt ends, and the next one begins at once over the other
//! routes, with what the receiver does not have yet.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Sending;
use crate::control;
use crate::error::TransferError;
use crate::route::Lost;
use crate::socket::{self, Outflow};
use crate::wire::CHUNK_SIZE;

/// Between two looks at the routes.
const LOOK: Duration = Duration::from_millis(250);
/// A route over which nothing of what it holds moves for this long, while others move, is lost...
const PATIENCE: Duration = Duration::from_secs(2);
/// ...if the other end did not answer so often in a row.
const VAIN: u8 = 3;
/// A route that alone still holds something in the end is watched for so long.
const LATE: Duration = Duration::from_secs(3);
/// What it takes to begin again over the other routes.
const AGAIN_S: f64 = 1.0;
/// A chunk that takes no longer than this is worth its route.
const BRIEF_S: f64 = 0.1;
/// A lost port is dialled for so long to see whether it is reached again.
const DIAL: Duration = Duration::from_secs(2);
/// With less left than this at the present rate nobody goes back to a route that was lost.
const WORTH_S: f64 = 5.0;

/// What was seen of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acked: u64,
    held: u64,
    /// Its reader is slow, which another route would not change.
    is_blocked: bool,
    /// How often in a row the other end did not answer.
    vain: u8,
    /// When something moved, or nothing was held.
    moved: Duration,
    /// When something moved.
    alive: Duration,
}

impl Seen {
    fn look(&mut self, now: Duration, flow: Outflow, vain: u8) {
        if flow.acked > self.acked {
            self.alive = now;
        }
        if flow.acked > self.acked || flow.held == 0 {
            self.moved = now;
        }
        (self.acked, self.held, self.vain) = (flow.acked, flow.held, vain);
        self.is_blocked = flow.is_blocked;
    }
}

/// All connections, with the ports that they go to.
#[derive(Debug, Default)]
struct Watch {
    each: Vec<(u16, Seen)>,
    /// The port that alone holds something in the end: since when, and what had been taken then.
    last: Option<(u16, Duration, u64)>,
}

impl Watch {
    fn elsewhere(&self, port: u16) -> impl Iterator<Item = &Seen> {
        self.each.iter().filter(move |(other, _)| *other != port).map(|(_, one)| one)
    }

    fn of(&self, port: u16) -> impl Iterator<Item = &Seen> {
        self.each.iter().filter(move |(other, _)| *other == port).map(|(_, one)| one)
    }

    /// The port where nothing gets through while something does elsewhere.
    fn lost(&self, now: Duration) -> Option<u16> {
        let is_lost = |port, one: &Seen| {
            let is_stuck = one.held > 0 && now.saturating_sub(one.moved) >= PATIENCE;
            let mut others = self.elsewhere(port);
            is_stuck && one.vain >= VAIN && others.any(|other| other.alive > one.moved)
        };
        self.each.iter().find(|(port, one)| is_lost(*port, one)).map(|(port, _)| *port)
    }

    /// The port that the end waits for, if others would have sent that sooner; `other` says how
    /// fast they are, in bytes per second.
    fn late(&mut self, now: Duration, other: impl Fn(u16) -> f64) -> Option<u16> {
        let holds = |port| {
            self.of(port).any(|one| one.held > 0) && !self.of(port).any(|one| one.is_blocked)
        };
        let is_last = |port| holds(port) && self.elsewhere(port).all(|one| one.held == 0);
        let port = self.each.iter().map(|(port, _)| *port).find(|port| is_last(*port));
        let Some(port) = port.filter(|port| self.elsewhere(*port).next().is_some()) else {
            self.last = None;
            return None;
        };
        let taken: u64 = self.of(port).map(|one| one.acked).sum();
        let (since, before) = match self.last {
            Some((known, since, before)) if known == port => (since, before),
            _ => (now, taken),
        };
        self.last = Some((port, since, before));
        let span = now.saturating_sub(since);
        if span < LATE {
            return None;
        }
        let speed = (taken - before) as f64 / span.as_secs_f64();
        let held: u64 = self.of(port).map(|one| one.held).sum();
        let again_s = AGAIN_S + (held + CHUNK_SIZE) as f64 / other(port);
        (held as f64 > speed * again_s).then_some(port)
    }
}

impl Sending {
    /// What it means that a connection broke: of one of several routes, that it is lost.
    pub(super) fn broken(&self, index: usize, peer: &str, error: io::Error) -> TransferError {
        let is_alone =
            |port: u16| self.control.socket().peer_addr().is_ok_and(|c| c.port() == port);
        match self.peer_port(index) {
            Some(port) if self.has_routes() && !is_alone(port) => TransferError::RouteLost { port },
            _ => control::broken(peer, error),
        }
    }

    /// Where a connection goes.
    fn peer_port(&self, index: usize) -> Option<u16> {
        self.sockets().get(index)?.peer_addr().ok().map(|peer| peer.port())
    }

    /// Whether the promised connections go to several ports.
    pub(super) fn has_routes(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether a connection may take a chunk: its route is not paused, and would be done with it
    /// before all routes together are done with everything, unless none is faster.
    pub(super) fn is_worth(&self, index: usize) -> bool {
        let share = self.pace.share_of(index);
        if share <= 0.0 {
            return false;
        }
        let done = self.progress.snapshot();
        if !done.total_is_known {
            return true;
        }
        let left = done.bytes_total.saturating_sub(done.bytes_done) as f64;
        let all = self.pace.rate().as_bit_per_s() as f64 / 8.0;
        let others = (0..self.promised).map(|other| self.pace.share_of(other));
        let fastest = others.fold(share, f64::max);
        CHUNK_SIZE as f64 / share <= (left / all).max(CHUNK_SIZE as f64 / fastest).max(BRIEF_S)
    }

    /// The thread that looks after the routes.
    pub(super) fn watch_routes(&self, lost: &Lost) {
        let data = self.sockets().clone();
        let mut sockets: Vec<&TcpStream> = vec![self.control.socket()];
        sockets.extend(data[..self.promised].iter().map(|socket| &**socket));
        let peers: Vec<SocketAddr> =
            sockets.iter().filter_map(|socket| socket.peer_addr().ok()).collect();
        if peers.len() < sockets.len() {
            return; // What is gone is reported by its thread.
        }
        let each = peers.iter().map(|peer| (peer.port(), Seen::default())).collect();
        let mut watch = Watch { each, last: None };
        while self.lanes.wait(LOOK) {
            let now = self.lanes.age();
            for ((_, one), socket) in watch.each.iter_mut().zip(&sockets) {
                let (Ok(flow), Ok(vain)) = (socket::outflow(socket), socket::unanswered(socket))
                else {
                    continue;
                };
                one.look(now, flow, vain);
            }
            let late =
                if self.is_ending() { watch.late(now, |port| self.elsewhere(port)) } else { None };
            if let Some(port) = watch.lost(now).or(late) {
                return self.abort(TransferError::RouteLost { port });
            }
            if let Some(port) = self.reached_again(lost, &peers) {
                lost.forget(port);
                return self.abort(TransferError::RouteBack { port });
            }
        }
    }

    /// Whether nothing is left but what connections have begun.
    fn is_ending(&self) -> bool {
        self.queue.is_empty() && self.progress.snapshot().total_is_known
    }

    /// What all connections may send that go to other ports than one, in bytes per second.
    fn elsewhere(&self, port: u16) -> f64 {
        let is_other = |index: &usize| self.peer_port(*index).is_some_and(|other| other != port);
        let others = (0..self.promised).filter(is_other);
        others.map(|index| self.pace.share_of(index)).sum()
    }

    /// A lost port that is reached again while there is enough left to go back to it.
    fn reached_again(&self, lost: &Lost, peers: &[SocketAddr]) -> Option<u16> {
        let done = self.progress.snapshot();
        let left = done.bytes_total.saturating_sub(done.bytes_done) as f64;
        let left_s = left * 8.0 / self.pace.rate().as_bit_per_s().max(1) as f64;
        if left_s < WORTH_S {
            return None;
        }
        let is_paused = |port: u16| {
            let of_port = self.pace.routes().into_iter().find(|route| route.port == port);
            of_port.is_none_or(|route| route.rate == weir_units::Rate::ZERO)
        };
        lost.due().into_iter().filter(|port| !is_paused(*port)).find(|port| {
            let mut address = peers[0];
            address.set_port(*port);
            let is_there = TcpStream::connect_timeout(&address, DIAL).is_ok();
            if !is_there {
                lost.note(*port);
            }
            is_there
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn holds(moved_s: u32, vain: u8) -> Seen {
        let moved = S * moved_s;
        Seen { acked: 1, held: 1_000_000, is_blocked: false, vain, moved, alive: moved }
    }

    fn lost(each: &[(u16, Seen)]) -> Option<u16> {
        Watch { each: each.to_vec(), last: None }.lost(10 * S)
    }

    #[test]
    fn a_route_is_lost_when_packets_are_while_others_pass() {
        assert_eq!(lost(&[(1, holds(9, 0)), (2, holds(7, 3))]), Some(2));
        let slow = [(1, holds(9, 0)), (2, holds(7, 2))];
        assert_eq!(lost(&slow), None, "its receiver may be slow");
        assert_eq!(lost(&[(1, holds(9, 0)), (2, holds(9, 3))]), None, "it may yet pass");
        assert_eq!(lost(&[(1, holds(7, 3)), (2, holds(7, 3))]), None, "nothing passes anywhere");
        assert_eq!(lost(&[(2, holds(9, 0)), (2, holds(7, 3))]), None, "the same route");
    }

    /// Whether the second route is given up after so long alone, when it moves so many bytes per
    /// second and the first may send so many.
    fn is_late(after_s: u32, speed: u64, other: f64) -> bool {
        let empty = Seen { held: 0, ..holds(0, 0) };
        let mut watch = Watch { each: vec![(1, empty), (2, holds(0, 0))], last: None };
        assert_eq!(watch.late(S, |_| other), None);
        watch.each[1].1.acked += speed * u64::from(after_s);
        watch.late(S + S * after_s, |_| other).is_some()
    }

    #[test]
    fn in_the_end_nobody_waits_for_a_route_that_is_slower_than_to_send_again() {
        assert!(is_late(3, 0, 1e6));
        assert!(!is_late(2, 0, 1e6), "it may yet move");
        assert!(is_late(3, 100_000, 1e6), "10 s instead of 3");
        assert!(!is_late(3, 500_000, 1e6), "2 s instead of 3");
        assert!(!is_late(3, 100_000, 1e5), "the other is no faster");
        assert!(!is_late(3, 0, 0.0), "the other may send nothing");
    }

    #[test]
    fn a_reader_that_is_slow_is_no_reason_to_send_again() {
        let empty = Seen { held: 0, ..holds(0, 0) };
        let blocked = Seen { is_blocked: true, ..holds(0, 0) };
        let mut watch = Watch { each: vec![(1, empty), (2, blocked)], last: None };
        assert_eq!(watch.late(S, |_| 1e6), None);
        assert_eq!(watch.late(9 * S, |_| 1e6), None);
    }

    #[test]
    fn nobody_is_late_while_another_route_is_busy_or_where_there_is_none() {
        for each in [vec![(1, holds(9, 0)), (2, holds(0, 0))], vec![(2, holds(0, 0))]] {
            let mut watch = Watch { each, last: None };
            assert_eq!(watch.late(S, |_| 1e6), None);
            assert_eq!(watch.late(9 * S, |_| 1e6), None);
        }
    }
}
