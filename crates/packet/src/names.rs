//! The names of a configuration, each once, and the numbers that stand for them.

use std::collections::HashMap;

use crate::PacketError;

/// Names to numbers, with messages for those that are not there.
pub(crate) struct Names {
    numbers: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn new<'a>(
        kind: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, PacketError> {
        let mut numbers = HashMap::new();
        for (number, name) in names.enumerate() {
            if numbers.insert(name.to_owned(), number).is_some() {
                return Err(PacketError::value(format!("{kind} {name:?}"), "is there twice"));
            }
        }
        Ok(Self { numbers })
    }

    pub(crate) fn node(&self, place: &str, name: &str) -> Result<usize, PacketError> {
        let known = self.numbers.get(name).copied();
        known.ok_or_else(|| PacketError::value(place, format!("there is no node {name:?}")))
    }
}
