use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::random::Random;
use super::{
    D3, Edf, Fair, Fcfs, Lst, Pdq, Peq, Place, Policy, Refused, Sjf, Stateful, StatelessOrder,
    Weir, WeirFirm,
};

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Fair`].
    Fair,
    /// [`Fcfs`].
    Fcfs,
    /// [`Edf`].
    Edf,
    /// [`Sjf`].
    Sjf,
    /// [`Lst`].
    Lst,
    /// [`Pdq`].
    Pdq,
    /// [`D3`] without state, in a random order.
    D3,
    /// [`D3`] without state, in a fixed order.
    D3Fixed,
    /// [`D3`] with state.
    D3Stateful,
    /// [`D3`] with state, newcomers admitted whole or not at all.
    D3Admitted,
    /// [`Peq`] by its prose.
    Peq,
    /// [`Peq`] by its listing.
    PeqListing,
    /// [`Peq`] whose refused flows ask again.
    PeqRetries,
    /// [`Weir`].
    Weir,
    /// [`WeirFirm`].
    WeirFirm,
}

/// There is no policy of that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no deadline policy \"{name}\"; they are {known}")]
pub struct UnknownPolicy {
    /// The name given.
    pub name: String,
    /// The names of the policies.
    pub known: String,
}

impl UnknownPolicy {
    pub(super) fn new(name: &str, known: &[&str]) -> Self {
        Self { name: name.to_owned(), known: known.join(", ") }
    }
}

impl Kind {
    /// Every policy.
    pub const ALL: [Self; 15] = [
        Self::Fair,
        Self::Fcfs,
        Self::Edf,
        Self::Sjf,
        Self::Lst,
        Self::Pdq,
        Self::D3,
        Self::D3Fixed,
        Self::D3Stateful,
        Self::D3Admitted,
        Self::Peq,
        Self::PeqListing,
        Self::PeqRetries,
        Self::Weir,
        Self::WeirFirm,
    ];

    /// Its name, as in tables and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Fcfs => "fcfs",
            Self::Edf => "edf",
            Self::Sjf => "sjf",
            Self::Lst => "lst",
            Self::Pdq => "pdq",
            Self::D3 => "d3",
            Self::D3Fixed => "d3-fixed-order",
            Self::D3Stateful => "d3-stateful",
            Self::D3Admitted => "d3-stateful-admitted",
            Self::Peq => "peq",
            Self::PeqListing => "peq-listing",
            Self::PeqRetries => "peq-retries",
            Self::Weir => "weir",
            Self::WeirFirm => "weir-firm",
        }
    }

    /// The policy; `seed` matters to those that draw lots.
    pub fn build(self, seed: u64) -> Box<dyn Policy> {
        match self {
            Self::Fair => Box::new(Fair),
            Self::Fcfs => Box::new(Fcfs),
            Self::Edf => Box::new(Edf),
            Self::Sjf => Box::new(Sjf),
            Self::Lst => Box::new(Lst),
            Self::Pdq => Box::new(Pdq),
            Self::D3 => {
                let order = StatelessOrder::Shuffled(Random::new(seed, &[u64::MAX]));
                Box::new(D3::stateless(order))
            }
            Self::D3Fixed => Box::new(D3::stateless(StatelessOrder::Fixed)),
            Self::D3Stateful => Box::new(D3::stateful(Stateful::Partial)),
            Self::D3Admitted => Box::new(D3::stateful(Stateful::Admitted)),
            Self::Peq => Box::new(Peq::new(Place::RearMost, Refused::Discarded)),
            Self::PeqListing => Box::new(Peq::new(Place::FrontMost, Refused::Discarded)),
            Self::PeqRetries => Box::new(Peq::new(Place::RearMost, Refused::Retries)),
            Self::Weir => Box::new(Weir::default()),
            Self::WeirFirm => Box::new(WeirFirm::default()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let unknown = || UnknownPolicy::new(text, &Self::ALL.map(Self::name));
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(unknown)
    }
}
