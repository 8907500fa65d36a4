//! Which of the five policies, and the readings of the published text that are switches.

use std::fmt;
use std::str::FromStr;

use weir_units::Time;

use crate::calendar::request::ParseSwitchError;

/// The five policies of Calibers (000-spec section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Accepts if the minimum rate fits into what is free, allots just that, never redistributes.
    Fixed,
    /// Allots all that is free, paces others when that is too little, redistributes at epochs.
    Dynamic {
        /// Which flows share what completed flows leave behind.
        scope: Scope,
        /// Which of them are favoured.
        order: Order,
    },
}

/// Which flows share what completed flows leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every flow on any link of a completed flow.
    Global,
    /// The flows on the one bottleneck among those links.
    Local,
}

/// Which flows are favoured: served first at redistribution, paced last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Those that would complete first ("SJF").
    Shortest,
    /// Those that would complete last ("LJF").
    Longest,
}

/// When requests are decided (AMB-24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Admission {
    /// At once, counting what completed flows have left as free.
    #[default]
    OnArrival,
    /// Together at the next epoch, in order of submission, after the redistribution.
    AtEpoch,
}

/// What redistribution sorts by (AMB-21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReshapeKey {
    /// The completion times under the rates before the redistribution.
    #[default]
    Completion,
    /// The deadlines: the completion times once all rates are at their minimum.
    Deadline,
}

/// Who says that a flow has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completions {
    /// The fluid model: a flow is over when its rates have carried its size.
    Modelled,
    /// The caller, by `complete` or `cancel`; until then a flow keeps its rate.
    Reported,
}

/// How a [`Calibers`](super::Calibers) calendar works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which policy.
    pub policy: Policy,
    /// The span between redistributions; not zero. The published evaluation uses 3 minutes.
    pub epoch: Time,
    /// When requests are decided.
    pub admission: Admission,
    /// Who says that a flow has completed.
    pub completions: Completions,
    /// What redistribution sorts by.
    pub reshape_key: ReshapeKey,
}

impl Options {
    /// For a simulation: flows complete by the fluid model, requests are decided on arrival.
    pub fn simulated(policy: Policy, epoch: Time) -> Self {
        Self {
            policy,
            epoch,
            admission: Admission::OnArrival,
            completions: Completions::Modelled,
            reshape_key: ReshapeKey::Completion,
        }
    }

    /// For live use: completions are reported, requests are decided on arrival.
    pub fn live(policy: Policy, epoch: Time) -> Self {
        Self { completions: Completions::Reported, ..Self::simulated(policy, epoch) }
    }
}

impl Policy {
    /// All five, in the order of the published tables.
    pub const ALL: [Self; 5] = [
        Self::Fixed,
        Self::Dynamic { scope: Scope::Local, order: Order::Shortest },
        Self::Dynamic { scope: Scope::Local, order: Order::Longest },
        Self::Dynamic { scope: Scope::Global, order: Order::Shortest },
        Self::Dynamic { scope: Scope::Global, order: Order::Longest },
    ];
}

impl Admission {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OnArrival, Self::AtEpoch];
}

impl ReshapeKey {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Completion, Self::Deadline];
}

impl Completions {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Modelled, Self::Reported];
}

/// The name of every value, for configuration files and snapshots; parsing gives the value back.
macro_rules! names {
    ($switch:ty, $what:literal, {$($value:pat => $name:literal),* $(,)?}) => {
        impl fmt::Display for $switch {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(match self { $($value => $name),* })
            }
        }

        impl FromStr for $switch {
            type Err = ParseSwitchError;

            fn from_str(text: &str) -> Result<Self, ParseSwitchError> {
                let known = Self::ALL.into_iter().find(|value| value.to_string() == text);
                known.ok_or_else(|| ParseSwitchError {
                    switch: $what,
                    name: text.to_owned(),
                    known: Self::ALL.map(|value| value.to_string()).join(", "),
                })
            }
        }
    };
}

names!(Policy, "policy", {
    Self::Fixed => "fixed",
    Self::Dynamic { scope: Scope::Local, order: Order::Shortest } => "local-sjf",
    Self::Dynamic { scope: Scope::Local, order: Order::Longest } => "local-ljf",
    Self::Dynamic { scope: Scope::Global, order: Order::Shortest } => "global-sjf",
    Self::Dynamic { scope: Scope::Global, order: Order::Longest } => "global-ljf",
});
names!(Admission, "way of admission", {
    Self::OnArrival => "on-arrival",
    Self::AtEpoch => "at-epoch",
});
names!(ReshapeKey, "reshape key", {
    Self::Completion => "completion",
    Self::Deadline => "deadline",
});
names!(Completions, "way of completion", {
    Self::Modelled => "modelled",
    Self::Reported => "reported",
});
