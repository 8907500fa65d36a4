//! Calendars that a service can run, by the names of their policies.

use std::str::FromStr;
use std::sync::Arc;

use weir_topology::{Network, NodeId};
use weir_units::{Bytes, Rate, Time};

use super::{
    Admission, Calendar, CalendarError, Calibers, Completions, Options, Policy, ReshapeKey,
};

/// A calendar that a service can run: it answers refused requests with what the links would allow,
/// and outlives the process that holds it.
pub trait Servable: Calendar + Send + Sync {
    /// The earliest deadline, as of the last call, before which no policy could have one transfer
    /// more with every promise kept. `None` if it is beyond all time.
    ///
    /// # Errors
    /// Ends that are equal or without a path between them.
    fn earliest_by_links(
        &mut self,
        source: NodeId,
        destination: NodeId,
        size: Bytes,
        rate_max: Rate,
    ) -> Result<Option<Time>, CalendarError>;

    /// Everything that later decisions depend on, as JSON; [`restore`] reads it.
    fn snapshot(&self) -> String;
}

impl Servable for Calibers {
    fn earliest_by_links(
        &mut self,
        source: NodeId,
        destination: NodeId,
        size: Bytes,
        rate_max: Rate,
    ) -> Result<Option<Time>, CalendarError> {
        self.earliest_by_links(source, destination, size, rate_max)
    }

    fn snapshot(&self) -> String {
        self.snapshot()
    }
}

/// The names of the policies that can serve.
pub fn servable_policies() -> Vec<String> {
    Policy::ALL.map(|policy| policy.to_string()).into()
}

/// How a calendar serves, whatever its policy; see [`Options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Options")]
pub struct ServiceOptions {
    pub epoch: Time,
    pub admission: Admission,
    pub completions: Completions,
    pub reshape_key: ReshapeKey,
}

/// An empty calendar with the policy of that name. A further policy that implements [`Servable`]
/// is added here, to [`servable_policies`] and to [`restore`].
///
/// # Errors
/// A name that is none of [`servable_policies`], an epoch of zero.
pub fn servable(
    policy: &str,
    network: Arc<Network>,
    options: ServiceOptions,
) -> Result<Box<dyn Servable>, CalendarError> {
    let ServiceOptions { epoch, admission, completions, reshape_key } = options;
    let policy = Policy::from_str(policy)?;
    let options = Options { policy, epoch, admission, completions, reshape_key };
    Ok(Box::new(Calibers::new(network, options)?))
}

/// The calendar that [`Servable::snapshot`] wrote.
///
/// # Errors
/// Another version, or text that is no snapshot or contradicts itself.
pub fn restore(text: &str) -> Result<Box<dyn Servable>, CalendarError> {
    Ok(Box::new(Calibers::restore(text)?))
}
