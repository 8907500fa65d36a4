//! Routes: several ports of one receiver, each with a rate of its own.
//!
//! A network tells connections apart by their ports, and can send each route's along a path of its
//! own. All routes take chunks from the same queue. One over which nothing gets through any more is
//! left out for a while; what was under way on it goes by the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_units::Rate;

use crate::error::TransferError;
use crate::remote::Remote;

/// A route that was lost is left out for so long at first, and twice as long each time.
const REST_FIRST: Duration = Duration::from_secs(15);
const REST_LAST: Duration = Duration::from_secs(300);

/// A port of the receiver, and what may be sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where the receiver listens too.
    pub port: u16,
    /// Pacing of its connections together; `Rate::MAX` is unpaced, zero takes no work.
    pub rate: Rate,
}

/// Which routes were lost, and until when each is left out.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    each: Mutex<HashMap<u16, Loss>>,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    until: Instant,
    rest: Duration,
}

impl Lost {
    /// Those of `ports` that are to be tried: if all were lost, the one whose turn is next.
    pub(crate) fn worth_trying(&self, ports: &[u16]) -> Vec<u16> {
        let now = Instant::now();
        let lost = self.lock();
        let until = |port: &u16| lost.get(port).map(|loss| loss.until);
        let is_out = |port: &u16| until(port).is_some_and(|until| now < until);
        let tried: Vec<u16> = ports.iter().copied().filter(|port| !is_out(port)).collect();
        let next = ports.iter().copied().min_by_key(until);
        if tried.is_empty() { next.into_iter().collect() } else { tried }
    }

    /// Nothing gets through to a port.
    pub(crate) fn note(&self, port: u16) {
        let mut lost = self.lock();
        let rest = lost.get(&port).map_or(REST_FIRST, |loss| (loss.rest * 2).min(REST_LAST));
        lost.insert(port, Loss { until: Instant::now() + rest, rest });
    }

    /// A port that was lost is worth a try now.
    pub(crate) fn try_now(&self, port: u16) {
        if let Some(loss) = self.lock().get_mut(&port) {
            loss.until = Instant::now();
        }
    }

    /// It is reached again.
    pub(crate) fn forget(&self, port: u16) {
        self.lock().remove(&port);
    }

    /// The lost ports that are to be tried again now.
    pub(crate) fn due(&self) -> Vec<u16> {
        let now = Instant::now();
        let each = self.lock();
        each.iter().filter(|(_, loss)| now >= loss.until).map(|(port, _)| *port).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Loss>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ports to send to.
pub(crate) fn ports(routes: &[Route], remote: &Remote) -> Vec<u16> {
    match routes {
        [] => vec![remote.port],
        routes => routes.iter().map(|route| route.port).collect(),
    }
}

/// Refuses ports that are none, and those that are named twice.
pub(crate) fn check(routes: &[Route]) -> Result<(), TransferError> {
    for (index, route) in routes.iter().enumerate() {
        let why = match route.port {
            0 => "a port is 1-65535",
            port if routes[..index].iter().any(|other| other.port == port) => "it is there twice",
            _ => continue,
        };
        let (item, value) = ("a route's port", route.port.to_string());
        return Err(TransferError::Setting { item, value, why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_left_out_unless_nothing_else_is_left() {
        let lost = Lost::default();
        assert_eq!(lost.worth_trying(&[1, 2]), [1, 2]);
        lost.note(1);
        assert_eq!(lost.worth_trying(&[1, 2]), [2]);
        assert!(lost.due().is_empty());
        lost.note(2);
        assert_eq!(lost.worth_trying(&[1, 2]), [1]);
        lost.note(1);
        assert_eq!(lost.worth_trying(&[1, 2]), [2]);
        lost.try_now(1);
        assert_eq!(lost.worth_trying(&[1, 2]), [1]);
        assert_eq!(lost.due(), [1]);
        lost.forget(2);
        assert_eq!(lost.worth_trying(&[1, 2]), [1, 2]);
    }

    #[test]
    fn no_port_is_named_twice() {
        let route = |port| Route { port, rate: Rate::MAX };
        assert!(check(&[route(1), route(2)]).is_ok());
        assert!(check(&[route(1), route(2), route(1)]).is_err());
        assert!(check(&[route(0)]).is_err());
    }
}
