//! A whole simulation as one JSON document: network, workload, sharing.

use serde::Deserialize;
use weir_topology::Network;
use weir_units::Time;

use crate::sharing::Rule;
use crate::workload::Workload;
use crate::{FluidError, Outcome, Routes, Sharing, document, simulate};

/// How links are shared, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Model {
    /// [`Rule::MaxMin`].
    #[default]
    MaxMin,
    /// [`Rule::EqualSplit`].
    EqualSplit,
    /// [`Sharing::Priority`] with so many classes.
    Priority(u8),
}

impl Model {
    /// The model of that name: `max-min`, `equal-split`, or `priority` with so many classes.
    ///
    /// # Errors
    /// Another name, or no classes.
    pub fn named(name: &str, classes: u8) -> Result<Self, FluidError> {
        let wrong =
            |reason: String| Err(FluidError::Parameter { place: "sharing".to_owned(), reason });
        match name {
            "max-min" => Ok(Self::MaxMin),
            "equal-split" => Ok(Self::EqualSplit),
            "priority" if classes > 0 => Ok(Self::Priority(classes)),
            "priority" => wrong("there are no priorities".to_owned()),
            _ => wrong(format!("{name:?} is not max-min, equal-split or priority")),
        }
    }

    /// What [`simulate`] takes.
    pub fn sharing(self) -> Sharing<'static> {
        match self {
            Self::MaxMin => Sharing::Fair(Rule::MaxMin),
            Self::EqualSplit => Sharing::Fair(Rule::EqualSplit),
            Self::Priority(classes) => Sharing::Priority { classes },
        }
    }
}

/// A simulation to be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// The links.
    pub network: Network,
    /// The flows.
    pub workload: Workload,
    /// How the links are shared.
    pub model: Model,
    /// When it ends; [`Time::MAX`] for "when all flows are over".
    pub until: Time,
}

/// The JSON form. The network is in the form of [`Network::from_json`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    network: serde_json::Value,
    #[serde(default)]
    sharing: Model,
    #[serde(default)]
    until_ns: Option<u64>,
    workload: Workload,
}

impl Study {
    /// Reads `{"network": NETWORK, "workload": WORKLOAD, "sharing": "max-min" | "equal-split" |
    /// {"priority": CLASSES}, "until_ns": T}`; the last two may be left out. A WORKLOAD has the
    /// fields of [`Workload`].
    ///
    /// # Errors
    /// [`FluidError::Parameter`] with the place, or what the network's builder refuses.
    pub fn from_json(text: &str) -> Result<Self, FluidError> {
        let document: Document = document::read(text)?;
        Ok(Self {
            network: Network::from_json(&document.network.to_string())?,
            workload: document.workload,
            model: document.sharing,
            until: document.until_ns.map_or(Time::MAX, Time::from_ns),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// What [`Workload::draw`] and [`simulate`] refuse.
    pub fn run(&self) -> Result<Outcome, FluidError> {
        let mut routes = Routes::new();
        let mut flows = self.workload.draw(&self.network, &mut routes)?;
        simulate(&self.network, &routes, self.model.sharing(), &mut flows, self.until)
    }
}
