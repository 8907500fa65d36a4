//! The readings of the work and what was added to it, as options.

use serde::Deserialize;
use weir_units::Time;

use super::HeadroomError;

/// Who decides on the path of an elephant flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// SH: nobody, it is the network's default path.
    Static,
    /// DH: the provider, for each flow.
    #[default]
    Dynamic,
    /// SH and DH in one: the provider, and another path than the default one where that saves time
    /// for all together although it must be set up first. Needs the sizes of flows; one that is not
    /// announced is served as by DH. The work recommends such a service and does not build it.
    Merged,
}

/// What makes one path better than another for a new flow under DH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Fewer elephant flows on the link that has most of them (000-spec section 3.3.2).
    #[default]
    Flows,
    /// A higher rate for the new flow, foreseen from the announced maximum rates of all and the
    /// capacities of links.
    Rate,
    /// Weir's own: less time per bit, to which every link adds a quarter of what it takes to carry
    /// the bit. A longer path must be faster, since it takes from others on more links.
    Weir,
}

/// Which of the best paths is taken (AMB-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ties {
    /// The default path if it is one of them, else any, all alike. The one reading that fits all
    /// that was published.
    #[default]
    DefaultElseRandom,
    /// The one of fewest hops; of several, the first by link names.
    FewestHops,
    /// Any, all alike.
    Random,
}

/// How far around elephant flows are sent: a detour that spares its flow a busy link takes from all
/// others on its own links, which is thrashing where everything is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopLimit {
    /// How many hops more than the default path a path may have.
    pub hops_more: u32,
    /// The limit is in force for a flow that meets so many others on the best of all paths.
    #[serde(default)]
    pub from_flows: u32,
}

/// How the [`Provider`](super::Provider) decides. The default is the dynamic service in the
/// reading that fits what was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Who decides.
    pub service: Service,
    /// What is better.
    pub measure: Measure,
    /// What is taken of the best.
    pub ties: Ties,
    /// How many paths there are to choose from for each pair of ends, the shortest; every path
    /// without loops if this is not given, of which a large network has too many.
    pub paths_max: Option<usize>,
    /// How long the paths may be; no limit if this is not given.
    pub hop_limit: Option<HopLimit>,
    /// How long it takes to set up a path other than the default one, in nanoseconds. The flow
    /// waits for it.
    pub setup_ns: u64,
}

impl Options {
    /// Reads the JSON form: an object with these fields, all of which may be left out.
    ///
    /// # Errors
    /// [`HeadroomError::Json`] with the place.
    pub fn from_json(text: &str) -> Result<Self, HeadroomError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let (place, reason) = (error.path().to_string(), error.inner().to_string());
            HeadroomError::Json { place, reason }
        })
    }

    pub(super) fn setup(&self) -> Time {
        Time::from_ns(self.setup_ns)
    }
}
