//! What elephant flows get of one link's headroom, in closed form (000-spec section 3.5).

use weir_units::{Bytes, Rate};

use super::HeadroomError;

/// Elephant flows over one link: Poisson arrivals, Pareto sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elephants {
    /// How many arrive in a second.
    pub arrivals_per_s: f64,
    /// The tail index of their sizes (alpha).
    pub shape: f64,
    /// The smallest size (x_m).
    pub minimum: Bytes,
}

/// How flows that are there together are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One after the other, as equation 3.1 has it. It needs a finite variance of sizes.
    #[default]
    InTurn,
    /// Together and at equal rates, as TCP is meant to: processor sharing, for which the shape of
    /// the sizes makes no difference.
    Equally,
}

/// What a link's headroom gives to its [`Elephants`] in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// The share of time for which the headroom is in use (rho).
    pub utilisation: f64,
    /// The mean number of flows under way (E\[N\]).
    pub flows: f64,
    /// What a flow gets of the headroom on average, in bit/s.
    pub throughput_bps: f64,
}

impl Elephants {
    /// The M/G/1 model of equations 3.1 to 3.3 for a link with this headroom.
    ///
    /// # Errors
    /// Parameters out of their range, a tail too heavy for the model, or more traffic than the
    /// headroom carries.
    pub fn over(&self, headroom: Rate, sharing: Sharing) -> Result<Expectation, HeadroomError> {
        self.check(headroom, sharing)?;
        let (shape, headroom) = (self.shape, headroom.as_bit_per_s() as f64);
        // Service times in seconds: Pareto, from `shortest` up.
        let shortest = self.minimum.count() as f64 * 8.0 / headroom;
        let mean = shape * shortest / (shape - 1.0);
        let utilisation = self.arrivals_per_s * mean;
        if utilisation >= 1.0 {
            return Err(HeadroomError::Overload { utilisation });
        }
        let flows = match sharing {
            Sharing::InTurn => {
                let variance = shortest.powi(2) * shape / ((shape - 1.0).powi(2) * (shape - 2.0));
                let square = utilisation + self.arrivals_per_s.powi(2) * variance;
                utilisation / 2.0 + square / (2.0 * (1.0 - utilisation))
            }
            Sharing::Equally => utilisation / (1.0 - utilisation),
        };
        Ok(Expectation { utilisation, flows, throughput_bps: headroom / flows.max(1.0) })
    }

    fn check(&self, headroom: Rate, sharing: Sharing) -> Result<(), HeadroomError> {
        let wrong = |name, value| Err(HeadroomError::Parameter { name, value });
        if !(self.arrivals_per_s.is_finite() && self.arrivals_per_s > 0.0) {
            return wrong("arrivals_per_s", self.arrivals_per_s);
        }
        if self.minimum == Bytes::ZERO {
            return wrong("minimum", 0.0);
        }
        if headroom == Rate::ZERO {
            return wrong("headroom", 0.0);
        }
        let least = match sharing {
            Sharing::InTurn => 2.0,
            Sharing::Equally => 1.0,
        };
        if !(self.shape.is_finite() && self.shape > least) {
            return Err(HeadroomError::HeavyTail { shape: self.shape, least });
        }
        Ok(())
    }
}
