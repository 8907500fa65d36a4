//! Which class a packet belongs to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::{Dscp, Ecn, QueueError};

const DSCPS: usize = 64;
/// More classes than any router offers (RFC 4594 names 12), few enough to look at each.
const MAX_CLASSES: usize = 16;

/// The DSCPs of one class.
pub(crate) trait Codepoints {
    fn codepoints(&self) -> &[u8];
}

impl Codepoints for Vec<u8> {
    fn codepoints(&self) -> &[u8] {
        self
    }
}

/// Classes by DSCP.
#[derive(Clone, Debug)]
pub(crate) struct ByDscp {
    class: [u8; DSCPS],
    names: Vec<Cow<'static, str>>,
}

impl ByDscp {
    /// `classes` as a configuration lists them under `key`: exactly one, with no DSCP of its own,
    /// takes every DSCP that no other names.
    pub(crate) fn new<C: Codepoints>(key: &'static str, classes: &[C]) -> Result<Self, QueueError> {
        let wrong = |value: String, reason| Err(QueueError::Domain { key, value, reason });
        if classes.is_empty() || classes.len() > MAX_CLASSES {
            return wrong(classes.len().to_string(), "1 to 16 classes are allowed");
        }
        let mut rest = None;
        let mut class = [None; DSCPS];
        for (index, codepoints) in (0u8..).zip(classes) {
            let codepoints = codepoints.codepoints();
            if codepoints.is_empty() && rest.replace(index).is_some() {
                return wrong("two without a DSCP".into(), "one class takes all other DSCPs");
            }
            for &dscp in codepoints {
                match class.get_mut(usize::from(dscp)) {
                    None => return wrong(dscp.to_string(), "a DSCP is from 0 to 63"),
                    Some(taken) if taken.is_some() => {
                        return wrong(dscp.to_string(), "a DSCP belongs to one class");
                    }
                    Some(free) => *free = Some(index),
                }
            }
        }
        let Some(rest) = rest else {
            return wrong("none without a DSCP".into(), "one class takes all other DSCPs");
        };
        let names = classes.iter().map(|class| name_of(class.codepoints())).collect();
        Ok(Self { class: class.map(|class| class.unwrap_or(rest)), names })
    }

    pub(crate) fn class_of(&self, dscp: Dscp) -> usize {
        usize::from(self.class[usize::from(dscp.value()) % DSCPS])
    }

    /// Names of the classes in order: "dscp 46" or "dscp 8,10", "rest" for the class of all others.
    pub(crate) fn names(&self) -> impl Iterator<Item = Cow<'static, str>> + '_ {
        self.names.iter().cloned()
    }

    /// Calls the classes otherwise.
    pub(crate) fn renamed<const N: usize>(mut self, names: [&'static str; N]) -> Self {
        debug_assert_eq!(self.names.len(), N, "every class has a name");
        self.names = names.map(Cow::Borrowed).into();
        self
    }
}

fn name_of(codepoints: &[u8]) -> Cow<'static, str> {
    if codepoints.is_empty() {
        return "rest".into();
    }
    let numbers: Vec<String> = codepoints.iter().map(u8::to_string).collect();
    format!("dscp {}", numbers.join(",")).into()
}

/// One class of a scheduler with weights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedClass {
    /// Its DSCPs; the one class with an empty list takes all others.
    #[serde(default)]
    pub dscp: Vec<u8>,
    /// Its share, relative to those of the others, while all wait.
    pub weight: u32,
}

impl WeightedClass {
    /// Scavengers (CS1) get a tenth, everything else nine.
    pub(crate) fn defaults() -> Vec<Self> {
        let scavengers = Self { dscp: vec![Dscp::CS1.value()], weight: 1 };
        vec![Self { dscp: vec![], weight: 9 }, scavengers]
    }

    /// Checks `classes` and makes the map from DSCPs to them.
    pub(crate) fn map(classes: &[Self]) -> Result<ByDscp, QueueError> {
        for class in classes {
            let allowed = (1..=1_000).contains(&class.weight);
            require(allowed, "classes.weight", class.weight, "1 to 1000 are allowed")?;
        }
        ByDscp::new("classes", classes)
    }
}

impl Codepoints for WeightedClass {
    fn codepoints(&self) -> &[u8] {
        &self.dscp
    }
}

/// Which packets count as L4S.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum L4sClassifier {
    /// ECT(1) and CE (RFC 9331 section 5.1).
    #[default]
    L4s,
    /// Everything ECN-capable, as in 2015 (004-spec section 5.1).
    AnyEct,
}

impl L4sClassifier {
    pub(crate) const fn is_l4s(self, ecn: Ecn) -> bool {
        match self {
            Self::L4s => matches!(ecn, Ecn::Ect1 | Ecn::Ce),
            Self::AnyEct => ecn.is_capable(),
        }
    }
}
