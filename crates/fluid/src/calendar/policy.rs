//! The policies that a study can run, by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use weir_schedule::calendar::{
    Amoeba, Calendar, Calibers, DcRoute, Edf, Options, Planner, Policy, Tempus, Weir, WeirOptions,
    Worth,
};
use weir_topology::{Network, Path};
use weir_units::Time;

use super::{Calendared, Planned};
use crate::{FluidError, Routes, Scheduler};

/// A policy of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyPolicy {
    /// No calendar: max-min sharing, deadlines are not looked at.
    None,
    /// One of the five of Calibers.
    Calibers(Policy),
    /// Everybody is admitted, the earliest deadline first.
    Edf,
    /// In the manner of TEMPUS: the greatest least fraction.
    Tempus,
    /// In the manner of Amoeba: reserves early, re-arranges.
    Amoeba,
    /// In the manner of DCRoute: reserves late on one path, pulls forward.
    DcRoute,
    /// Weir's own, by what it is to make the most of.
    Weir(Worth),
    /// Weir's own, as many requests as possible, with answers that may take a minute.
    WeirHeld,
}

/// How many candidate paths a transfer has where one of the baselines takes several.
const PATHS: usize = 4;
/// And with Weir's own policy, which chooses among them by price and by how full they are.
const WEIR_PATHS: usize = 8;
/// How long an answer may take where it may.
const HOLD: Time = Time::from_ms(60_000);

impl StudyPolicy {
    /// Every policy there is.
    pub fn all() -> Vec<Self> {
        let calibers = Policy::ALL.into_iter().map(Self::Calibers);
        let others = [Self::Edf, Self::Tempus, Self::Amoeba, Self::DcRoute];
        let weir = [Worth::Anything, Worth::Request].map(Self::Weir);
        let weir = weir.into_iter().chain([Self::WeirHeld]);
        [Self::None].into_iter().chain(calibers).chain(others).chain(weir).collect()
    }

    /// Whether what it admits ends on time and all is answered at once, so that only a refusal on
    /// arrival is a failure.
    pub fn promises(self) -> bool {
        match self {
            Self::None | Self::Edf | Self::Tempus | Self::WeirHeld => false,
            Self::Calibers(_) | Self::Amoeba | Self::DcRoute | Self::Weir(_) => true,
        }
    }

    /// How many of the shortest paths between two nodes it sends over.
    pub(super) fn paths(self) -> usize {
        match self {
            Self::None | Self::Calibers(_) | Self::Edf | Self::Tempus => 1,
            Self::Amoeba | Self::DcRoute => PATHS,
            Self::Weir(_) | Self::WeirHeld => WEIR_PATHS,
        }
    }

    /// The policy as a scheduler of flows on `routes`; `None` where links share by themselves.
    /// Those of Calibers redistribute at `epochs`, if there are any, instead of the multiples of
    /// `epoch`, and send on `paths` between the ends of these; others have their own.
    ///
    /// # Errors
    /// An epoch of zero.
    pub(super) fn scheduler<'a>(
        self,
        network: &Arc<Network>,
        routes: &'a Routes,
        epoch: Time,
        epochs: Option<Vec<Time>>,
        paths: &[Path],
    ) -> Result<Option<Box<dyn Scheduler + 'a>>, FluidError> {
        let network = Arc::clone(network);
        let calendared = |calendar: Box<dyn Calendar>| Calendared::new(calendar, routes);
        let planned = |planner: Box<dyn Planner>| -> Option<Box<dyn Scheduler + 'a>> {
            Some(Box::new(Planned::new(planner, routes)))
        };
        Ok(match self {
            Self::None => None,
            Self::Edf => planned(Box::new(Edf::new(network))),
            Self::Tempus => planned(Box::new(Tempus::new(network, epoch)?)),
            Self::Amoeba => planned(Box::new(Amoeba::new(network, PATHS))),
            Self::DcRoute => planned(Box::new(DcRoute::new(network, PATHS, epoch)?)),
            Self::Calibers(policy) => {
                let calendar = Calibers::new(network, Options::live(policy, epoch))?;
                let calendar = calendar.with_paths(paths.iter().cloned());
                let calendared = calendared(Box::new(calendar)).asked_at_start();
                Some(Box::new(match epochs {
                    None => calendared,
                    Some(epochs) => calendared.with_epochs(epochs),
                }))
            }
            Self::Weir(_) | Self::WeirHeld => {
                let (worth, hold) = match self {
                    Self::Weir(worth) => (worth, Time::ZERO),
                    _ => (Worth::Request, HOLD),
                };
                let options =
                    WeirOptions { paths: WEIR_PATHS, epoch, worth, hold, measured: false };
                Some(Box::new(calendared(Box::new(Weir::new(network, options)?))))
            }
        })
    }
}

impl fmt::Display for StudyPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Calibers(policy) => policy.fmt(out),
            Self::Edf => out.write_str("edf"),
            Self::Tempus => out.write_str("tempus"),
            Self::Amoeba => out.write_str("amoeba"),
            Self::DcRoute => out.write_str("dcroute"),
            Self::Weir(worth) => out.write_str(worth.policy_name()),
            Self::WeirHeld => out.write_str("weir-held"),
        }
    }
}

impl FromStr for StudyPolicy {
    type Err = FluidError;

    fn from_str(text: &str) -> Result<Self, FluidError> {
        let known = Self::all().into_iter().find(|policy| policy.to_string() == text);
        known.ok_or_else(|| {
            let names: Vec<String> = Self::all().iter().map(Self::to_string).collect();
            let reason = format!("{text:?} is not a policy: {} are", names.join(", "));
            FluidError::Parameter { place: "policy".to_owned(), reason }
        })
    }
}
