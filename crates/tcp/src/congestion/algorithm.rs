//! Which control a sender uses, by name and with its options: `"cubic"`,
//! `"cubic:hystart=off,abe=0.85,cwv=rfc7661"`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use weir_random::Random;
use weir_units::Time;

use super::CongestionControl;
use super::bbr::Bbr;
use super::bbr3::Bbr3;
use super::ctcp::Ctcp;
use super::cubic::{Cubic, CubicOptions};
use super::dctcp::{Dctcp, DctcpLoss, DctcpOptions};
use super::htcp::Htcp;
use super::hystart::Hystart;
use super::ledbat::{Ledbat, LedbatOptions};
use super::loss_based::{Common, Law, LossBased, Validation};
use super::prague::Prague;
use super::reno::Reno;
use super::validated::Validated;

/// A congestion control with what may be chosen about it; parsed from and printed as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The control itself.
    pub control: Control,
    /// Whether data is sent ECN-capable and a classic echo is answered (`ecn=on`); controls that
    /// live by marks do so in any case.
    pub ecn: bool,
    /// ABE (RFC 8511, `abe=0.85`): what is kept of the window after a mark, in thousandths.
    /// Sends ECN-capable, too.
    pub ecn_kept: Option<u16>,
    /// What becomes of a window that was not used (`cwv=rfc2861`, `rfc5681`, `rfc7661` or `none`).
    pub validation: Validation,
}

/// The controls, by the names that the kernel or the field has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// `reno`: RFC 5681.
    Reno,
    /// `cubic`: RFC 9438 as Linux has it.
    Cubic(CubicOptions),
    /// `bbr`: version 1, as in Linux.
    Bbr,
    /// `bbr3`: version 3, draft-ietf-ccwg-bbr.
    Bbr3,
    /// `dctcp`: RFC 8257.
    Dctcp(DctcpOptions),
    /// `prague`: draft-briscoe-iccrg-prague-congestion-control.
    Prague {
        /// Rounds after slow start from which short paths behave like one of 25 ms.
        rtt_transition: u32,
    },
    /// `ctcp`: Compound TCP.
    Ctcp,
    /// `htcp`: H-TCP.
    Htcp,
    /// `ledbat`: LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus.
    Ledbat(LedbatOptions),
}

/// A text that names no congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AlgorithmError {
    /// The name is not known.
    #[error("\"{0}\" is not a congestion control; use one of {NAMES}")]
    Name(String),
    /// The option does not exist, or not for this control.
    #[error("{control} has no option \"{option}\"")]
    Option {
        /// The control's name.
        control: String,
        /// The option as given.
        option: String,
    },
    /// The option cannot have this value.
    #[error("\"{value}\" is not a value of {option}; use {expected}")]
    Value {
        /// The option.
        option: String,
        /// The value as given.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
}

const NAMES: &str = "reno, cubic, bbr, bbr3, dctcp, prague, ctcp, htcp, ledbat";

impl Algorithm {
    /// A new control for a connection whose segments carry `mss` bytes and which may begin with
    /// `initial_window` bytes in flight; `random` is its own, for controls that draw lots.
    pub fn build(
        &self,
        mss: u32,
        initial_window: u64,
        now: Time,
        random: Random,
    ) -> Box<dyn CongestionControl> {
        match self.control {
            Control::Reno => self.loss_based(mss, initial_window, now, Reno),
            Control::Cubic(options) => {
                self.loss_based(mss, initial_window, now, Cubic::new(options))
            }
            Control::Bbr => Box::new(Bbr::new(mss, initial_window, now, random)),
            Control::Bbr3 => Box::new(Bbr3::new(mss, initial_window, now, random)),
            Control::Dctcp(options) => {
                self.loss_based(mss, initial_window, now, Dctcp::new(options))
            }
            Control::Prague { rtt_transition } => {
                self.loss_based(mss, initial_window, now, Prague::new(rtt_transition))
            }
            Control::Ctcp => self.loss_based(mss, initial_window, now, Ctcp::default()),
            Control::Htcp => self.loss_based(mss, initial_window, now, Htcp::default()),
            Control::Ledbat(options) => {
                self.loss_based(mss, initial_window, now, Ledbat::new(options))
            }
        }
    }

    fn loss_based<L: Law + 'static>(
        &self,
        mss: u32,
        initial_window: u64,
        now: Time,
        law: L,
    ) -> Box<dyn CongestionControl> {
        let common = Common { ecn_kept: self.ecn_kept, ecn: self.ecn, validation: self.validation };
        let control = Box::new(LossBased::new(mss, initial_window, now, law, common));
        if self.validation == Validation::Rfc7661 {
            return Box::new(Validated::new(control, mss, initial_window));
        }
        control
    }

    /// Takes one `option=value`.
    fn set(&mut self, option: &str, value: &str) -> Result<(), AlgorithmError> {
        if self.set_own(option, value)? || self.set_common(option, value)? {
            return Ok(());
        }
        let control = self.control.name().to_owned();
        Err(AlgorithmError::Option { control, option: option.to_owned() })
    }

    /// The options that one control has to itself.
    fn set_own(&mut self, option: &str, value: &str) -> Result<bool, AlgorithmError> {
        match &mut self.control {
            Control::Cubic(cubic) => match option {
                "hystart" => {
                    cubic.hystart = choose(option, value, "linux, plus-plus or off", HYSTART)?
                }
                "fast-convergence" => cubic.fast_convergence = switch(option, value)?,
                "reno-friendly" => cubic.reno_friendly = switch(option, value)?,
                "idle-fix" => cubic.idle_fix = switch(option, value)?,
                _ => return Ok(false),
            },
            Control::Dctcp(dctcp) => match option {
                "on-loss" => {
                    dctcp.on_loss = choose(option, value, "rfc, linux-3.18 or windows", LOSS)?;
                }
                "growth-in-cwr" => dctcp.grows_in_cwr = switch(option, value)?,
                "whole-segments" => dctcp.whole_segments = switch(option, value)?,
                _ => return Ok(false),
            },
            Control::Ledbat(ledbat) => match option {
                "target" => ledbat.target_ms = milliseconds(option, value)?,
                "shallow" => ledbat.shallow = switch(option, value)?,
                _ => return Ok(false),
            },
            Control::Prague { rtt_transition } if option == "rtt-transition" => {
                let rounds = value.parse();
                *rtt_transition = rounds.map_err(|_| wrong(option, value, "a number of rounds"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The options of every control that reacts to loss.
    fn set_common(&mut self, option: &str, value: &str) -> Result<bool, AlgorithmError> {
        if matches!(self.control, Control::Bbr | Control::Bbr3) {
            return Ok(false);
        }
        let marks_itself = matches!(self.control, Control::Dctcp(_) | Control::Prague { .. });
        match option {
            "ecn" if !marks_itself => self.ecn = switch(option, value)?,
            "abe" if !marks_itself => self.ecn_kept = Some(kept(option, value)?),
            "cwv" => {
                let expected = "rfc2861, rfc5681, rfc7661 or none";
                self.validation = choose(option, value, expected, VALIDATION)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

const HYSTART: &[(&str, Hystart)] =
    &[("linux", Hystart::Linux), ("plus-plus", Hystart::PlusPlus), ("off", Hystart::Off)];
const LOSS: &[(&str, DctcpLoss)] = &[
    ("rfc", DctcpLoss::Rfc),
    ("linux-3.18", DctcpLoss::Linux318),
    ("windows", DctcpLoss::Windows),
];
/// Rounds of the Linux reference.
const RTT_TRANSITION: u32 = 500;
const VALIDATION: &[(&str, Validation)] = &[
    ("rfc2861", Validation::Rfc2861),
    ("rfc5681", Validation::Rfc5681),
    ("rfc7661", Validation::Rfc7661),
    ("none", Validation::None),
];

fn choose<T: Copy>(
    option: &str,
    value: &str,
    expected: &'static str,
    table: &[(&str, T)],
) -> Result<T, AlgorithmError> {
    let found = table.iter().find(|(name, _)| *name == value).map(|&(_, choice)| choice);
    found.ok_or_else(|| wrong(option, value, expected))
}

fn spelling<T: PartialEq>(choice: &T, table: &[(&'static str, T)]) -> &'static str {
    table.iter().find(|(_, other)| other == choice).map_or("", |&(name, _)| name)
}

fn switch(option: &str, value: &str) -> Result<bool, AlgorithmError> {
    choose(option, value, "on or off", &[("on", true), ("off", false)])
}

/// A share of the window in thousandths, from a decimal of (0, 1).
fn kept(option: &str, value: &str) -> Result<u16, AlgorithmError> {
    let share: f64 = value.parse().unwrap_or(f64::NAN);
    let thousandths = (share * 1_000.0).round();
    if !(1.0..1_000.0).contains(&thousandths) {
        return Err(wrong(option, value, "a share of the window between 0 and 1, such as 0.85"));
    }
    Ok(thousandths as u16)
}

/// A span that RFC 6817 allows: 1 to 100.
fn milliseconds(option: &str, value: &str) -> Result<u16, AlgorithmError> {
    let given = value.parse().ok().filter(|ms| (1..=100).contains(ms));
    given.ok_or_else(|| wrong(option, value, "milliseconds from 1 to 100"))
}

fn wrong(option: &str, value: &str, expected: &'static str) -> AlgorithmError {
    AlgorithmError::Value { option: option.to_owned(), value: value.to_owned(), expected }
}

impl Control {
    /// The name, without options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic(_) => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Dctcp(_) => "dctcp",
            Self::Prague { .. } => "prague",
            Self::Ctcp => "ctcp",
            Self::Htcp => "htcp",
            Self::Ledbat(_) => "ledbat",
        }
    }

    /// The options that are not at their defaults, as `(option, value)`.
    fn options(&self) -> Vec<(&'static str, String)> {
        let mut given = Vec::new();
        match self {
            Self::Cubic(own) => {
                let usual = CubicOptions::default();
                if own.hystart != usual.hystart {
                    given.push(("hystart", spelling(&own.hystart, HYSTART).to_owned()));
                }
                for (option, value) in [
                    ("fast-convergence", own.fast_convergence),
                    ("reno-friendly", own.reno_friendly),
                    ("idle-fix", own.idle_fix),
                ] {
                    if !value {
                        given.push((option, "off".to_owned()));
                    }
                }
            }
            Self::Dctcp(own) => {
                if own.on_loss != DctcpLoss::default() {
                    given.push(("on-loss", spelling(&own.on_loss, LOSS).to_owned()));
                }
                if !own.grows_in_cwr {
                    given.push(("growth-in-cwr", "off".to_owned()));
                }
                if own.whole_segments {
                    given.push(("whole-segments", "on".to_owned()));
                }
            }
            Self::Ledbat(own) => {
                if own.target_ms != LedbatOptions::default().target_ms {
                    given.push(("target", own.target_ms.to_string()));
                }
                if own.shallow {
                    given.push(("shallow", "on".to_owned()));
                }
            }
            Self::Prague { rtt_transition } if *rtt_transition != RTT_TRANSITION => {
                given.push(("rtt-transition", rtt_transition.to_string()));
            }
            _ => {}
        }
        given
    }
}

impl From<Control> for Algorithm {
    /// The control with nothing changed.
    fn from(control: Control) -> Self {
        Self { control, ecn: false, ecn_kept: None, validation: Validation::default() }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    /// Reads `name` or `name:option=value,option=value`.
    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let (name, options) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let control = match name {
            "reno" => Control::Reno,
            "cubic" => Control::Cubic(CubicOptions::default()),
            "bbr" => Control::Bbr,
            "bbr3" => Control::Bbr3,
            "dctcp" => Control::Dctcp(DctcpOptions::default()),
            "prague" => Control::Prague { rtt_transition: RTT_TRANSITION },
            "ctcp" => Control::Ctcp,
            "htcp" => Control::Htcp,
            "ledbat" => Control::Ledbat(LedbatOptions::default()),
            _ => return Err(AlgorithmError::Name(name.to_owned())),
        };
        let mut algorithm = Self::from(control);
        for part in options.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (option, value) = part.split_once('=').unwrap_or((part, ""));
            algorithm.set(option.trim(), value.trim())?;
        }
        Ok(algorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut given: Vec<String> = self
            .control
            .options()
            .iter()
            .map(|(option, value)| format!("{option}={value}"))
            .collect();
        if self.ecn {
            given.push("ecn=on".to_owned());
        }
        if let Some(kept) = self.ecn_kept {
            given.push(format!("abe={}", f64::from(kept) / 1_000.0));
        }
        if self.validation != Validation::default() {
            given.push(format!("cwv={}", spelling(&self.validation, VALIDATION)));
        }
        let colon = if given.is_empty() { "" } else { ":" };
        write!(out, "{}{colon}{}", self.control.name(), given.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_are_read_and_printed_alike() {
        for text in [
            "reno",
            "cubic",
            "reno:ecn=on",
            "reno:abe=0.8,cwv=rfc7661",
            "cubic:hystart=plus-plus",
            "dctcp:on-loss=linux-3.18,growth-in-cwr=off,whole-segments=on",
            "prague:rtt-transition=0",
            "htcp:abe=0.8",
            "ledbat",
            "ledbat:target=25,shallow=on,ecn=on",
            "cubic:hystart=off,idle-fix=off,ecn=on,abe=0.85,cwv=none",
        ] {
            let algorithm: Algorithm = text.parse().unwrap();
            assert_eq!(algorithm.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_would_be() {
        for (text, part) in [
            ("vegas", "use one of reno"),
            ("", "\"\" is not a congestion control"),
            ("reno:hystart=off", "reno has no option \"hystart\""),
            ("cubic:hystart=maybe", "use linux, plus-plus or off"),
            ("reno:abe=1.5", "0.85"),
            ("reno:abe", "0.85"),
            ("reno:cwv=never", "rfc7661"),
            ("bbr:cwv=none", "bbr has no option \"cwv\""),
            ("dctcp:abe=0.8", "dctcp has no option \"abe\""),
            ("prague:rtt-transition=x", "a number of rounds"),
            ("ledbat:target=101", "1 to 100"),
            ("ledbat:hystart=off", "ledbat has no option \"hystart\""),
        ] {
            let error = text.parse::<Algorithm>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error:?}, expected {part:?}");
        }
    }
}
