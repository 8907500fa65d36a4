//! Every discipline by name: what a configuration file or a link's JSON says, and its making.

use serde::{Deserialize, Serialize};
use weir_units::Rate;

use crate::{
    Amount, Fifo, FifoConfig, Limit, Packet, PriorityConfig, QueueDiscipline, QueueError, Random,
};

/// A discipline and its parameters: `{"discipline": "fifo", "limit": {"packets": 1000}}`. What is
/// not given has the default of the discipline's source.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "discipline", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DisciplineConfig {
    /// First in, first out.
    Fifo(FifoConfig),
    /// Strict priority.
    Priority(PriorityConfig),
}

impl Default for DisciplineConfig {
    fn default() -> Self {
        Self::Fifo(FifoConfig::default())
    }
}

impl DisciplineConfig {
    /// Makes the discipline for a link of `rate` (`None`: unlimited).
    ///
    /// # Errors
    /// [`QueueError`], which names the key whose value cannot be right.
    pub fn build<P: Packet + Send + 'static>(
        &self,
        rate: Option<Rate>,
        _random: Random,
    ) -> Result<Box<dyn QueueDiscipline<P> + Send>, QueueError> {
        let limit = self.limit(rate);
        Ok(match self {
            Self::Fifo(_) => Box::new(Fifo::new(limit)),
            Self::Priority(config) => Box::new(config.build(limit)?),
        })
    }

    /// What may wait in all classes together.
    pub fn limit(&self, rate: Option<Rate>) -> Limit {
        let amount = match self {
            Self::Fifo(config) => config.limit,
            Self::Priority(config) => config.limit,
        };
        amount.map_or(Limit::None, |amount: Amount| amount.limit(rate))
    }

    /// Into how many equal parts, one for each class, the limit is split.
    pub fn split(&self) -> u64 {
        match self {
            Self::Fifo(_) => 1,
            Self::Priority(config) => config.classes.len().max(1) as u64,
        }
    }
}

/// Serde for quantities as whole numbers of their base unit, for keys that end in it.
macro_rules! in_base_unit {
    ($module:ident, $type:ty, $from:path, $count:path) => {
        pub(crate) mod $module {
            use serde::{Deserialize, Deserializer, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64($count(*value))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                u64::deserialize(deserializer).map($from)
            }
        }
    };
}
in_base_unit!(ns, weir_units::Time, weir_units::Time::from_ns, weir_units::Time::as_ns);
