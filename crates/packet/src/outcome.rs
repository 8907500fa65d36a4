//! What a simulation found. Counts and means are of the time that was measured, after the warm-up,
//! unless they say otherwise; every time is in nanoseconds.

use serde::Serialize;
use weir_queue::{ClassCounters, Histogram};

use crate::PacketError;
use crate::application::ApplicationOutcome;

/// Everything, in the order of the configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What random choices followed from.
    pub seed: u64,
    /// How long was measured.
    pub measured_ns: u64,
    /// Each traffic of the configuration.
    pub flows: Vec<FlowOutcome>,
    /// Each link.
    pub links: Vec<LinkOutcome>,
    /// Jain's index over the goodput of all TCP connections; nothing where there is none.
    pub jain_index: Option<f64>,
    /// Events run, warm-up included.
    pub events: u64,
}

impl Outcome {
    /// As JSON; the same simulation gives the same text.
    ///
    /// # Errors
    /// Never in practice: every number is finite.
    pub fn to_json(&self) -> Result<String, PacketError> {
        serde_json::to_string(self)
            .map_err(|error| PacketError::value("outcome", error.to_string()))
    }
}

/// One traffic.
#[derive(Clone, Debug, Serialize)]
pub struct FlowOutcome {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Where it comes from.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// What the application got per second, while it ran and was measured.
    pub goodput_bps: f64,
    /// What the application got.
    pub delivered_bytes: u64,
    /// Packets that left the sender.
    pub sent_packets: u64,
    /// Packets that arrived.
    pub received_packets: u64,
    /// Packets of the flow, both ways and warm-up included, that queues dropped or lines lost.
    pub lost_packets: u64,
    /// Packets that arrived with congestion experienced.
    pub marked_packets: u64,
    /// Round-trip time of bulk senders, looked at regularly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Quantiles>,
    /// Each connection of a bulk sender.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamOutcome>,
    /// What the application measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationOutcome>,
    /// One-way delay of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Quantiles>,
}

/// One connection of a bulk sender. Counters are from its start.
#[derive(Clone, Debug, Serialize)]
pub struct StreamOutcome {
    /// Its congestion control.
    pub congestion: &'static str,
    /// Bytes acknowledged per second, while it ran and was measured.
    pub goodput_bps: f64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Smoothed round-trip time at the end.
    pub srtt_ns: u64,
    /// Least round-trip time.
    pub min_rtt_ns: u64,
    /// Congestion window at the end.
    pub window_bytes: u64,
}

/// One link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkOutcome {
    /// Its name.
    pub name: String,
    /// First end to second.
    pub forward: DirectionOutcome,
    /// Second end to first.
    pub backward: DirectionOutcome,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionOutcome {
    /// Where packets enter.
    pub from: String,
    /// Where they leave.
    pub to: String,
    /// What the link could carry; nothing for unlimited.
    pub rate_bps: Option<u64>,
    /// Share of that which was carried.
    pub utilisation: Option<f64>,
    /// Packets that entered.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Packets that the queue dropped.
    pub dropped_queue: u64,
    /// Packets that the line lost.
    pub dropped_loss: u64,
    /// Packets that the queue marked.
    pub marked: u64,
    /// Waiting, in the mean over time.
    pub queue_bytes_mean: f64,
    /// Waiting at most, as far as was looked.
    pub queue_bytes_max: u64,
    /// The queue, class by class, warm-up included.
    pub classes: Vec<ClassOutcome>,
}

/// One class of a queue discipline, from the start of the simulation.
#[derive(Clone, Debug, Serialize)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Packets offered.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Packets dropped for any cause.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// How long packets waited.
    pub sojourn: Quantiles,
}

/// A distribution of times; zeros if nothing was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Median, to 1/16.
    pub p50_ns: u64,
    /// 90th percentile, to 1/16.
    pub p90_ns: u64,
    /// 99th percentile, to 1/16.
    pub p99_ns: u64,
    /// Largest, exactly.
    pub max_ns: u64,
}

impl From<&Histogram> for Quantiles {
    fn from(histogram: &Histogram) -> Self {
        let quantile = |fraction| histogram.quantile(fraction).as_ns();
        Self {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: histogram.max().as_ns(),
        }
    }
}

impl From<&ClassCounters> for ClassOutcome {
    fn from(counters: &ClassCounters) -> Self {
        Self {
            name: counters.name.to_string(),
            packets_in: counters.packets_in,
            packets_out: counters.packets_out,
            dropped: counters.dropped(),
            marked: counters.marked,
            sojourn: (&counters.sojourn).into(),
        }
    }
}

/// Jain's fairness index of `shares`: 1 where all are equal, 1/n where one has everything.
pub(crate) fn jain_index(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_of_known_shares() {
        assert_eq!(jain_index(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[]), None);
        // Jain, Chiu, Hawe 1984: (1 + 2 + 3)^2 / (3 * 14) = 6/7.
        assert_eq!(jain_index(&[1.0, 2.0, 3.0]), Some(6.0 / 7.0));
    }
}
