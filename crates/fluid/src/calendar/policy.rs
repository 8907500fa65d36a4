//! The policies that a study can run, by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use weir_schedule::calendar::{Calibers, Options, Policy};
use weir_topology::Network;
use weir_units::Time;

use super::Calendared;
use crate::{FluidError, Routes, Scheduler};

/// A policy of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyPolicy {
    /// No calendar: max-min sharing, deadlines are not looked at.
    None,
    /// One of the five of Calibers.
    Calibers(Policy),
}

impl StudyPolicy {
    /// Every policy there is.
    pub fn all() -> Vec<Self> {
        [Self::None].into_iter().chain(Policy::ALL.map(Self::Calibers)).collect()
    }

    /// Whether what it admits ends on time, so that a refusal is the only way to fail.
    pub fn promises(self) -> bool {
        match self {
            Self::None => false,
            Self::Calibers(_) => true,
        }
    }

    /// The policy as a scheduler of flows on `routes`; `None` where links share by themselves.
    /// With `epochs`, these instead of the multiples of `epoch`.
    ///
    /// # Errors
    /// An epoch of zero.
    pub(super) fn scheduler<'a>(
        self,
        network: &Arc<Network>,
        routes: &'a Routes,
        epoch: Time,
        epochs: Option<Vec<Time>>,
    ) -> Result<Option<Box<dyn Scheduler + 'a>>, FluidError> {
        Ok(match self {
            Self::None => None,
            Self::Calibers(policy) => {
                let calendar = Calibers::new(Arc::clone(network), Options::live(policy, epoch))?;
                let calendared = Calendared::new(Box::new(calendar), routes);
                Some(Box::new(match epochs {
                    None => calendared,
                    Some(epochs) => calendared.with_epochs(epochs),
                }))
            }
        })
    }
}

impl fmt::Display for StudyPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Calibers(policy) => policy.fmt(out),
        }
    }
}

impl FromStr for StudyPolicy {
    type Err = FluidError;

    fn from_str(text: &str) -> Result<Self, FluidError> {
        let known = Self::all().into_iter().find(|policy| policy.to_string() == text);
        known.ok_or_else(|| {
            let names: Vec<String> = Self::all().iter().map(Self::to_string).collect();
            let reason = format!("{text:?} is no policy: {} are", names.join(", "));
            FluidError::Parameter { place: "policy".to_owned(), reason }
        })
    }
}
