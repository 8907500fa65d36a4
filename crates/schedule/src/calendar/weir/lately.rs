//! What was lately asked of each link, by how heavy the requests were: what is to be expected.
//!
//! A price is a guess that something better comes. It counts only where what was asked for lately,
//! over as long as the request has, would not fit beside it if it were asked for again. Sums that
//! decay over several spans tell that for any span between them: they are exact where requests
//! come steadily, and never more than what was really asked for.

use std::collections::BTreeMap;

use weir_topology::LinkId;
use weir_units::Time;

/// Over how long the sums decay: from ten minutes to a week.
pub(super) const SPANS_S: [f64; 6] = [600.0, 2400.0, 9600.0, 38_400.0, 153_600.0, 614_400.0];

/// Bits, decaying over each of [`SPANS_S`].
pub(super) type Sums = [f64; SPANS_S.len()];

/// What was asked of one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OnLink {
    pub(super) as_of: Time,
    /// By the whole logarithm to the base 2 of the requests' burden.
    pub(super) by_burden: BTreeMap<i32, Sums>,
}

/// What was asked of all links.
#[derive(Clone, Debug)]
pub(super) struct Lately {
    links: Vec<OnLink>,
    /// While it may be taken back: the links of which something was asked since, as they were.
    since: Option<Vec<(usize, OnLink)>>,
}

/// How heavy a request is: the capacity that it takes, for what it is worth, in octaves.
pub(super) fn octave(bits: f64, hops: usize, weight: u32) -> i32 {
    (bits * hops as f64 / f64::from(weight)).log2().floor() as i32
}

impl Lately {
    pub(super) fn new(links: usize) -> Self {
        Self { links: vec![OnLink::default(); links], since: None }
    }

    /// From now on what there was before is kept, so that additions can be taken back.
    pub(super) fn note(&mut self) {
        self.since = Some(Vec::new());
    }

    /// Takes back all that was added since [`Lately::note`].
    pub(super) fn take_back(&mut self) {
        for (link, before) in self.since.take().into_iter().flatten() {
            self.links[link] = before;
        }
    }

    /// What was asked of each link, in the network's order.
    pub(super) fn links(&self) -> &[OnLink] {
        &self.links
    }

    /// Goes on from what was asked of a link.
    pub(super) fn set(&mut self, link: usize, asked: OnLink) -> bool {
        let mut sums = asked.by_burden.values().flatten();
        let is_sound = link < self.links.len() && sums.all(|sum| sum.is_finite() && *sum >= 0.0);
        if is_sound {
            self.links[link] = asked;
        }
        is_sound
    }

    /// Bits that lighter requests, those of lower octaves, are expected to ask of a link within
    /// so long.
    pub(super) fn expected(&self, link: LinkId, now: Time, octave: i32, span_s: f64) -> f64 {
        let on_link = &self.links[link.index()];
        let mut sums = Sums::default();
        for (_, lighter) in on_link.by_burden.range(..octave) {
            sums.iter_mut().zip(lighter).for_each(|(sum, one)| *sum += one);
        }
        decay(&mut sums, now.saturating_sub(on_link.as_of).as_s());
        within(&sums, span_s)
    }

    /// Takes note of what was asked of a link.
    pub(super) fn add(&mut self, link: LinkId, now: Time, octave: i32, bits: f64) {
        let on_link = &mut self.links[link.index()];
        if let Some(since) = self.since.as_mut()
            && since.iter().all(|(known, _)| *known != link.index())
        {
            since.push((link.index(), on_link.clone()));
        }
        let passed_s = now.saturating_sub(on_link.as_of).as_s();
        if passed_s > 0.0 {
            on_link.by_burden.values_mut().for_each(|sums| decay(sums, passed_s));
            // The last decays the slowest.
            on_link.by_burden.retain(|_, sums| sums[SPANS_S.len() - 1] >= 1.0);
            on_link.as_of = now;
        }
        let sums = on_link.by_burden.entry(octave).or_default();
        sums.iter_mut().for_each(|sum| *sum += bits);
    }
}

fn decay(sums: &mut Sums, passed_s: f64) {
    for (sum, span_s) in sums.iter_mut().zip(SPANS_S) {
        *sum *= (-passed_s / span_s).exp();
    }
}

/// What a span brings, between the two sums next to it.
fn within(sums: &Sums, span_s: f64) -> f64 {
    let Some(above) = SPANS_S.iter().position(|known_s| span_s < *known_s) else {
        return sums[SPANS_S.len() - 1];
    };
    let (below_s, below) = match above {
        0 => (0.0, 0.0),
        _ => (SPANS_S[above - 1], sums[above - 1]),
    };
    let part = (span_s - below_s) / (SPANS_S[above] - below_s);
    below + part * (sums[above] - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> LinkId {
        let mut builder = weir_topology::Network::builder();
        builder.node("a").unwrap();
        builder.node("b").unwrap();
        let rate = weir_units::Rate::from_bit_per_s(1);
        builder.link("ab", "a", "b", rate, Time::ZERO).unwrap();
        builder.build().links().next().unwrap()
    }

    #[test]
    fn a_steady_demand_is_expected_to_go_on() {
        let (link, mut lately) = (link(), Lately::new(1));
        for minute in 0..70_000 {
            lately.add(link, Time::from_ms(60_000 * minute), 0, 420.0);
        }
        let now = Time::from_ms(60_000 * 70_000 - 30_000);
        for span_s in [600.0, 1000.0, 3600.0, 100_000.0] {
            let expected = lately.expected(link, now, 2, span_s);
            assert!((expected / (7.0 * span_s) - 1.0).abs() < 0.01, "{span_s} s: {expected}");
        }
    }

    #[test]
    fn no_more_is_expected_than_was_asked_for_by_lighter_ones() {
        let (link, mut lately) = (link(), Lately::new(1));
        lately.add(link, Time::ZERO, 3, 100.0);
        lately.add(link, Time::from_ms(1000), 4, 1000.0);
        for span_s in [1.0, 600.0, 3600.0, 1e9] {
            let of = |octave| lately.expected(link, Time::from_ms(2000), octave, span_s);
            assert!(of(3).abs() < 1e-9, "as heavy is not lighter: {}", of(3));
            assert!(of(4) > 0.0 && of(4) <= 100.0, "{span_s} s: {}", of(4));
            assert!(of(5) > of(4) && of(5) <= 1100.0, "{span_s} s: {}", of(5));
        }
    }
}
