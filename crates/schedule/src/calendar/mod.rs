//! The bandwidth calendar: transfers with a size and a deadline are admitted only if the deadline
//! will hold, and are told at which rate to send.
//!
//! [`Calendar`] is the contract between a policy and the world that runs it (the service, the
//! fluid simulator). [`Calibers`] implements it with the five policies of the Calibers work.
//! [`Planner`] is the smaller contract of the policies that these are compared with: [`Amoeba`],
//! [`DcRoute`], [`Tempus`] and [`Edf`].
//! A [`Servable`] calendar can be run by the live service, and is made by its policy's name.
//!
//! Order of calls: any number of the input methods, in order of time. `epoch` at the times that
//! `next_epoch` names. Every input method returns the rates it changed; until the next change, a
//! flow sends at the rate last told.

mod amoeba;
mod amount;
mod calibers;
mod capacity;
mod dcroute;
mod demand;
mod document;
mod edf;
mod planner;
mod profile;
mod request;
mod reservations;
mod servable;
mod tempus;
mod weir;

pub use amoeba::Amoeba;

pub use calibers::{Admission, Calibers, Completions, Options, Order, Policy, ReshapeKey, Scope};
pub use capacity::CapacityPiece;
pub use dcroute::DcRoute;
pub use edf::Edf;
pub use planner::{Booking, Instruction, Planner};
pub use request::{
    Accepted, CalendarError, Change, Completion, Decision, Epoch, FlowId, FlowState, FlowView,
    LinkView, ParseSwitchError, Reason, Refused, Request, Split, Terms,
};
pub use servable::{Servable, ServiceOptions, restore, servable, servable_policies};
pub use tempus::Tempus;

pub use self::weir::{Weir, WeirOptions, Worth};

use weir_topology::Network;
use weir_units::{Bytes, Time};

/// A calendar: requests, reports and the passing of time in; decisions and rates out.
///
/// `now` is the caller's time since any origin, the same one as in deadlines; it never goes back.
/// An error means that the call changed nothing.
pub trait Calendar {
    /// The network whose capacity is handed out.
    fn network(&self) -> &Network;

    /// Decides on a request. A refusal changes nothing.
    ///
    /// # Errors
    /// A request that cannot be right: unknown or equal ends, no path, nothing to send, an
    /// identifier in use.
    fn submit(&mut self, now: Time, request: Request) -> Result<Decision, CalendarError>;

    /// Takes note of what is really left of a flow, as measured. A flow found behind is given
    /// what it needs if links and the slack of others allow; if not, its state says so.
    ///
    /// # Errors
    /// An unknown flow, or more left than its size.
    fn progress(
        &mut self,
        now: Time,
        flow: &FlowId,
        remaining: Bytes,
    ) -> Result<Vec<Change>, CalendarError>;

    /// The flow has delivered everything; its capacity is free from now on.
    ///
    /// # Errors
    /// An unknown flow.
    fn complete(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError>;

    /// The flow is given up; its capacity is free from now on. A request that still waits for its
    /// epoch is withdrawn.
    ///
    /// # Errors
    /// An unknown flow.
    fn cancel(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError>;

    /// Redistributes what has become free, and decides on waiting requests.
    ///
    /// # Errors
    /// Only a time before the last one.
    fn epoch(&mut self, now: Time) -> Result<Epoch, CalendarError>;

    /// The time at which [`Calendar::epoch`] is next due: the first multiple of the epoch length
    /// after the last call of it. A simulation holds every epoch at its time; a live caller who
    /// comes late holds one, at the time it is.
    fn next_epoch(&self) -> Time;

    /// Flows that ended by themselves since this was last asked, by the fluid model; always empty
    /// where completions are reported.
    ///
    /// # Errors
    /// Only a time before the last one.
    fn advance(&mut self, now: Time) -> Result<Vec<Completion>, CalendarError>;

    /// Every admitted flow at the time of the last call, in order of admission.
    fn flows(&self) -> Vec<FlowView>;

    /// Every link, in the network's order.
    fn links(&self) -> Vec<LinkView>;
}
