//! What a simulation found. Counts and means are of the time that was measured, after the warm-up,
//! unless they say otherwise; every time is in nanoseconds.

use std::fmt::Write;

use serde::Serialize;
use weir_application::{ApplicationOutcome, Done, Quantiles};
use weir_link::{AirStatistics, CreditCounters};
use weir_queue::ClassCounters;

use crate::PacketError;
use crate::echo::Sample;
use crate::relay::Holding;
use crate::trace::{ConnectionLook, QueueLook};

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
    /// Every look, if they were to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
}

/// Every look at queues and connections, and every request completed, as comma-separated values
/// with a line of titles.
#[derive(Clone, Debug, Serialize)]
pub struct Traces {
    /// `time_ns,link,way,queue_packets,queue_bytes`.
    pub queues: String,
    /// `time_ns,traffic,stream,window_bytes,in_flight_bytes,srtt_ns,delivered_bytes`.
    pub connections: String,
    /// `begun_ns,traffic,size_bytes,took_ns`, from the start of the simulation.
    pub requests: String,
    /// `time_ns,relay,join_queue_bytes,split_queue_bytes,received_bytes,acknowledged_bytes`, of
    /// relays: what waits in both ends, what came of all clients and what all servers acknowledged.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub relays: String,
    /// `time_ns,link,way,sent_bytes,stalled_ns,stalled_at_congestion_ns,congested_ns,`
    /// `congested_and_seen_ns,marked_packets`, of links with credits, from the start of the
    /// simulation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credits: String,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            queues: "time_ns,link,way,queue_packets,queue_bytes\n".to_owned(),
            connections: "time_ns,traffic,stream,window_bytes,in_flight_bytes,srtt_ns,\
                          delivered_bytes\n"
                .to_owned(),
            requests: "begun_ns,traffic,size_bytes,took_ns\n".to_owned(),
            relays: String::new(),
            credits: String::new(),
        }
    }
}

impl Traces {
    pub(crate) fn queue(&mut self, look: &QueueLook<'_>) {
        let QueueLook { time_ns, link, way, queue_packets, queue_bytes } = look;
        // Writing to a string does not fail.
        let _ = writeln!(self.queues, "{time_ns},{link},{way},{queue_packets},{queue_bytes}");
    }

    pub(crate) fn connection(&mut self, look: &ConnectionLook<'_>) {
        let ConnectionLook { time_ns, traffic, stream, .. } = look;
        let _ = writeln!(
            self.connections,
            "{time_ns},{traffic},{stream},{},{},{},{}",
            look.window_bytes, look.in_flight_bytes, look.srtt_ns, look.delivered_bytes
        );
    }

    pub(crate) fn relay(&mut self, time_ns: u64, name: &str, holding: Holding) {
        if self.relays.is_empty() {
            self.relays.push_str(
                "time_ns,relay,join_queue_bytes,split_queue_bytes,received_bytes,\
                 acknowledged_bytes\n",
            );
        }
        let Holding { join, split, received, acknowledged } = holding;
        let _ = writeln!(self.relays, "{time_ns},{name},{join},{split},{received},{acknowledged}");
    }

    pub(crate) fn credits(&mut self, look: &QueueLook<'_>, sent: u64, found: &CreditCounters) {
        if self.credits.is_empty() {
            self.credits.push_str(
                "time_ns,link,way,sent_bytes,stalled_ns,stalled_at_congestion_ns,congested_ns,\
                 congested_and_seen_ns,marked_packets\n",
            );
        }
        let QueueLook { time_ns, link, way, .. } = look;
        let _ = writeln!(
            self.credits,
            "{time_ns},{link},{way},{sent},{},{},{},{},{}",
            found.stalled.as_ns(),
            found.stalled_at_congestion.as_ns(),
            found.congested.as_ns(),
            found.congested_and_seen.as_ns(),
            found.marked
        );
    }

    pub(crate) fn request(&mut self, traffic: &str, done: &Done) {
        let (begun, took) = (done.begun.as_ns(), done.took.as_ns());
        let _ = writeln!(self.requests, "{begun},{traffic},{},{took}", done.size_bytes);
    }
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
    /// What a relay did; its stream is the aggregate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayOutcome>,
    /// What the application measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationOutcome>,
    /// One-way delay of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Quantiles>,
    /// Each sample of echo requests, warm-up included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub echoes: Vec<EchoOutcome>,
}

/// The replies to the echo requests of one sample; those that are under way at the end are missing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EchoOutcome {
    /// How many came.
    pub replies: u64,
    /// Their mean round-trip time; nothing without replies.
    pub rtt_ns: Option<u64>,
}

impl From<&Sample> for EchoOutcome {
    fn from(sample: &Sample) -> Self {
        let &Sample { replies, rtt_sum_ns } = sample;
        Self { replies, rtt_ns: rtt_sum_ns.checked_div(replies) }
    }
}

/// What a relay did, warm-up included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RelayOutcome {
    /// How acknowledgements are linked: `none`, `literal`, `strict` or `per-flow`.
    pub linked_ack: &'static str,
    /// Connections of clients.
    pub flows: u64,
    /// Data of clients that arrived, and those that their servers have acknowledged.
    pub received_bytes: u64,
    /// See `received_bytes`.
    pub acknowledged_bytes: u64,
    /// Waiting at the join end at most, at the split end, and at both, as far as was looked.
    pub join_queue_bytes_max: u64,
    /// See `join_queue_bytes_max`.
    pub split_queue_bytes_max: u64,
    /// See `join_queue_bytes_max`.
    pub queues_bytes_max: u64,
    /// The most that a client had seen acknowledged and its server had not acknowledged; at every
    /// acknowledgement.
    pub ahead_bytes_max: u64,
    /// Acknowledgements that are held at the end.
    pub held_acks: u64,
    /// Whether neither data nor acknowledgements wait at the end, and no credit is left.
    pub is_at_rest: bool,
}

/// One connection of a bulk sender. Counters are from its start.
#[derive(Clone, Debug, Serialize)]
pub struct StreamOutcome {
    /// Its congestion control.
    pub congestion: &'static str,
    /// Bytes acknowledged per second, while it ran and was measured; by its server, if it passes a
    /// relay.
    pub goodput_bps: f64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Times that fast recovery began.
    pub recoveries: u64,
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
    /// What only its kind of link measures; nothing of wired ones.
    #[serde(flatten)]
    pub special: Option<SpecialOutcome>,
    /// The queue, class by class, warm-up included.
    pub classes: Vec<ClassOutcome>,
}

/// What only one kind of link measures.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialOutcome {
    /// What a wireless link measures.
    Wlan(AirStatistics),
    /// What a lossless link measures.
    Credits(CreditsOutcome),
}

/// How a sender waited for credits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CreditsOutcome {
    /// How often it began to.
    pub stalls: u64,
    /// How long it had a packet and no credits.
    pub stalled_ns: u64,
    /// Share of the time measured.
    pub stalled_share: f64,
    /// For how much of it the buffer at the far end held so much for one output that this was
    /// congested.
    pub stalled_at_congestion_ns: u64,
    /// How long so much waited for this port in one input buffer that it was congested.
    pub congested_ns: u64,
    /// For how much of it some port that leads here was stalled.
    pub congested_and_seen_ns: u64,
    /// Packets marked as they left by it.
    pub marked_packets: u64,
    /// How often word came back of a marked packet that had begun its way here.
    pub marks_told: u64,
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
