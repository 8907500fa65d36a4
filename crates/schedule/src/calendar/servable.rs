//! Calendars that a service can run, by the names of their policies.

use std::sync::Arc;

use serde::Deserialize;
use weir_topology::{LinkId, Network, NodeId};
use weir_units::{Bytes, Rate, Time};

use super::{
    Admission, Calendar, CalendarError, Calibers, CapacityPiece, Change, Completions, Decision,
    FlowId, FlowView, Options, Policy, Request, ReshapeKey, Split, Weir, WeirOptions, Worth,
};

/// A calendar that a service can run: it answers refused requests with what the links would allow,
/// and outlives the process that holds it.
pub trait Servable: Calendar + Send + Sync {
    /// The earliest deadline, as of the last call, before which no policy could have one transfer
    /// more, over so many paths, with every promise kept; the room kept as `offer` is none. `None`
    /// if it is beyond all time.
    ///
    /// # Errors
    /// Ends that are equal or without a path between them; an unknown offer.
    fn earliest_by_links(
        &mut self,
        ends: (NodeId, NodeId),
        size: Bytes,
        rate_max: Rate,
        paths: usize,
        offer: Option<&FlowId>,
    ) -> Result<Option<Time>, CalendarError>;

    /// The earliest time, as of the last call, by which what remains of a flow could be there
    /// beside all that is promised to others. `None` if it is beyond all time.
    ///
    /// # Errors
    /// An unknown flow.
    fn earliest_end(&mut self, flow: &FlowId) -> Result<Option<Time>, CalendarError>;

    /// Says what a link can carry from now on: these pieces of time, which do not overlap, and
    /// `outside` of them. Whose promise can no longer be kept is at risk.
    ///
    /// # Errors
    /// Pieces that are empty or overlap, a rate that no link has.
    fn set_capacity(
        &mut self,
        now: Time,
        link: LinkId,
        pieces: &[CapacityPiece],
        outside: Rate,
    ) -> Result<Vec<Change>, CalendarError>;

    /// Has a flow take no more than the first so many of its paths from now on. If its promise
    /// can no longer be kept, it is at risk.
    ///
    /// # Errors
    /// An unknown flow; no path at all.
    fn narrow(
        &mut self,
        now: Time,
        flow: &FlowId,
        paths: usize,
    ) -> Result<Vec<Change>, CalendarError> {
        let _ = (now, paths);
        let unknown = || CalendarError::UnknownFlow { flow: flow.clone() };
        self.flow(flow).map(|_| Vec::new()).ok_or_else(unknown)
    }

    /// What a flow sends on each of its paths, in an order that never changes; empty if it is not
    /// there.
    fn lanes(&self, flow: &FlowId) -> Split {
        self.flow(flow).map_or_else(Vec::new, |flow| vec![(flow.path, flow.rate)])
    }

    /// Everything that later decisions depend on, as JSON; [`restore`] reads it.
    fn snapshot(&self) -> String;

    /// Keeps room, until it is taken up or cancelled, for a request that was refused: from its
    /// start on, by the earliest deadline that could then be promised, none before its own. Says
    /// which; `None` if there is none, or the policy keeps no room for what starts later.
    ///
    /// # Errors
    /// Those of [`Calendar::submit`].
    fn offer(&mut self, now: Time, request: Request) -> Result<Option<Time>, CalendarError> {
        let _ = (now, request);
        Ok(None)
    }

    /// Decides on a request for which room was kept as `offer`. If it asks for no more than that,
    /// it is not refused; if it does, the room is given up.
    ///
    /// # Errors
    /// Those of [`Calendar::submit`]; an unknown offer.
    fn take_up(
        &mut self,
        now: Time,
        offer: &FlowId,
        request: Request,
    ) -> Result<Decision, CalendarError> {
        let _ = (now, request);
        Err(CalendarError::UnknownFlow { flow: offer.clone() })
    }

    /// A flow as it stands, if it is there; found without looking at all.
    fn flow(&self, id: &FlowId) -> Option<FlowView>;

    /// Another calendar with the same state.
    fn clone_box(&self) -> Box<dyn Servable>;

    /// The decision that would be given now, what it would cost others included; nothing changes.
    /// If room is kept for the request as `offer`, it is what [`Servable::take_up`] would give, or
    /// [`Calendar::submit`] once that room is given up.
    ///
    /// # Errors
    /// Those of [`Calendar::submit`]; an unknown offer.
    fn precheck(
        &mut self,
        now: Time,
        request: Request,
        offer: Option<&FlowId>,
    ) -> Result<Decision, CalendarError> {
        let mut copy = self.clone_box();
        let mut freed = offer.map_or(Ok(Vec::new()), |offer| copy.cancel(now, offer))?;
        let mut decision = copy.submit(now, request)?;
        if let Decision::Accepted(accepted) = &mut decision {
            freed.retain(|one| accepted.changes.iter().all(|change| change.flow != one.flow));
            accepted.changes.append(&mut freed);
        }
        Ok(decision)
    }
}

/// The contract, by methods of the calendar's own that have the same names.
macro_rules! serves {
    ($calendar:ty $(, $own:item)*) => {
        impl Servable for $calendar {
            fn earliest_end(&mut self, flow: &FlowId) -> Result<Option<Time>, CalendarError> {
                self.earliest_end(flow)
            }

            fn set_capacity(
                &mut self,
                now: Time,
                link: LinkId,
                pieces: &[CapacityPiece],
                outside: Rate,
            ) -> Result<Vec<Change>, CalendarError> {
                self.set_capacity(now, link, pieces, outside)
            }

            fn snapshot(&self) -> String {
                self.snapshot()
            }

            fn clone_box(&self) -> Box<dyn Servable> {
                Box::new(self.clone())
            }

            $($own)*
        }
    };
}

serves!(
    Calibers,
    fn earliest_by_links(
        &mut self,
        (source, destination): (NodeId, NodeId),
        size: Bytes,
        rate_max: Rate,
        _paths: usize,
        offer: Option<&FlowId>,
    ) -> Result<Option<Time>, CalendarError> {
        let Some(offer) = offer else {
            return self.earliest_by_links(source, destination, size, rate_max);
        };
        let mut copy = self.clone();
        copy.cancel(self.clock(), offer)?;
        copy.earliest_by_links(source, destination, size, rate_max)
    },
    fn flow(&self, id: &FlowId) -> Option<FlowView> {
        self.flow_view(id)
    }
);
serves!(
    Weir,
    fn earliest_by_links(
        &mut self,
        (source, destination): (NodeId, NodeId),
        size: Bytes,
        rate_max: Rate,
        paths: usize,
        offer: Option<&FlowId>,
    ) -> Result<Option<Time>, CalendarError> {
        let find = |calendar: &mut Self| {
            calendar.earliest_by_links(source, destination, size, rate_max, paths)
        };
        match offer {
            None => find(self),
            Some(offer) => self.without(offer, find),
        }
    },
    fn offer(&mut self, now: Time, request: Request) -> Result<Option<Time>, CalendarError> {
        self.offer(now, request)
    },
    fn take_up(
        &mut self,
        now: Time,
        offer: &FlowId,
        request: Request,
    ) -> Result<Decision, CalendarError> {
        self.take_up(now, offer, request)
    },
    fn narrow(
        &mut self,
        now: Time,
        flow: &FlowId,
        paths: usize,
    ) -> Result<Vec<Change>, CalendarError> {
        self.narrow(now, flow, paths)
    },
    fn lanes(&self, flow: &FlowId) -> Split {
        self.lanes(flow)
    },
    fn precheck(
        &mut self,
        now: Time,
        request: Request,
        offer: Option<&FlowId>,
    ) -> Result<Decision, CalendarError> {
        self.precheck(now, request, offer)
    },
    fn flow(&self, id: &FlowId) -> Option<FlowView> {
        self.flow_view(id)
    }
);

/// A policy that can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServablePolicy {
    Calibers(Policy),
    Weir(Worth),
}

impl ServablePolicy {
    fn all() -> Vec<Self> {
        let calibers = Policy::ALL.map(Self::Calibers);
        calibers.into_iter().chain([Worth::Request, Worth::Anything].map(Self::Weir)).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Calibers(policy) => policy.to_string(),
            Self::Weir(worth) => worth.policy_name().to_owned(),
        }
    }

    fn named(name: &str) -> Result<Self, CalendarError> {
        let found = Self::all().into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| {
            let (switch, known) = ("policy", servable_policies().join(", "));
            super::ParseSwitchError { switch, name: name.to_owned(), known }.into()
        })
    }
}

/// The names of the policies that can serve.
pub fn servable_policies() -> Vec<String> {
    ServablePolicy::all().into_iter().map(ServablePolicy::name).collect()
}

/// How a calendar serves, whatever its policy; see [`Options`] and [`WeirOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Options and WeirOptions")]
pub struct ServiceOptions {
    pub epoch: Time,
    pub admission: Admission,
    pub completions: Completions,
    /// Only the policies of Calibers have one.
    pub reshape_key: ReshapeKey,
    /// More than one only with Weir's own policy.
    pub paths: usize,
}

impl ServiceOptions {
    /// Completions are reported, requests are decided on arrival, each transfer takes one path.
    pub const fn live(epoch: Time) -> Self {
        Self {
            epoch,
            admission: Admission::OnArrival,
            completions: Completions::Reported,
            reshape_key: ReshapeKey::Completion,
            paths: 1,
        }
    }
}

/// An empty calendar with the policy of that name. A further policy that implements [`Servable`]
/// is added to `ServablePolicy`, here and to [`restore`].
///
/// # Errors
/// A name that [`servable_policies`] does not list; an epoch of zero; what the policy cannot do.
pub fn servable(
    policy: &str,
    network: Arc<Network>,
    options: ServiceOptions,
) -> Result<Box<dyn Servable>, CalendarError> {
    let ServiceOptions { epoch, admission, completions, reshape_key, paths } = options;
    let unable = |what| CalendarError::Unable { policy: policy.to_owned(), what };
    match ServablePolicy::named(policy)? {
        ServablePolicy::Calibers(policy) => {
            if paths != 1 {
                return Err(unable("sends over one path"));
            }
            let options = Options { policy, epoch, admission, completions, reshape_key };
            Ok(Box::new(Calibers::new(network, options)?))
        }
        ServablePolicy::Weir(worth) => {
            if completions != Completions::Reported {
                return Err(unable("needs completions to be reported"));
            }
            if admission != Admission::OnArrival {
                return Err(unable("decides on arrival"));
            }
            if paths == 0 {
                return Err(unable("sends over one path or more"));
            }
            let hold = Time::ZERO;
            let options = WeirOptions { paths, epoch, worth, hold, measured: true };
            Ok(Box::new(Weir::new(network, options)?))
        }
    }
}

/// What tells whose snapshot it is; what else there is, the policy's own reader checks.
#[derive(Deserialize)]
struct Kind {
    policy: String,
}

/// The calendar that [`Servable::snapshot`] wrote.
///
/// # Errors
/// Another version, or text that is not a snapshot or contradicts itself.
pub fn restore(text: &str) -> Result<Box<dyn Servable>, CalendarError> {
    let policy = serde_json::from_str(text).ok().map(|kind: Kind| kind.policy);
    match policy.and_then(|name| ServablePolicy::named(&name).ok()) {
        Some(ServablePolicy::Weir(_)) => Ok(Box::new(Weir::restore(text)?)),
        Some(ServablePolicy::Calibers(_)) | None => Ok(Box::new(Calibers::restore(text)?)),
    }
}
