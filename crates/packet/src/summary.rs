//! Sums up what a simulation found, at its end.

use weir_application::Application;
use weir_link::MediumCounters;
use weir_units::Time;

use crate::config::Config;
use crate::endpoint::Endpoints;
use crate::fabric::Fabric;
use crate::flow::Flow;
use crate::outcome::{
    CreditsOutcome, DirectionOutcome, FlowOutcome, LinkOutcome, Outcome, RelayOutcome,
    SpecialOutcome, StreamOutcome, Traces, jain_index,
};
use crate::probe::{Probe, Totals};
use crate::relay::Relay;

/// What the outcome will need of the configuration.
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) duration: Time,
    /// Names.
    pub(crate) nodes: Vec<String>,
    pub(crate) links: Vec<String>,
}

impl Scene {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            seed: config.seed,
            duration: Time::from_ns(config.duration_ns),
            nodes: config.nodes.iter().map(|node| node.name.clone()).collect(),
            links: config.links.iter().map(|link| link.name.clone()).collect(),
        }
    }
}

/// Everything that the outcome is made of.
pub(crate) struct Summary<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) fabric: &'a Fabric,
    pub(crate) flows: &'a [Flow],
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) probe: &'a Probe,
}

impl Summary<'_> {
    /// The outcome after `events`, with every look where those were kept. Media have been served
    /// up to the end.
    pub(crate) fn outcome(&self, events: u64, traces: Option<Traces>) -> Outcome {
        let flows: Vec<FlowOutcome> =
            (0..self.flows.len()).map(|index| self.flow_outcome(index)).collect();
        let traces = traces.map(|traces| self.with_requests(traces));
        let direct = flows.iter().filter(|flow| flow.relay.is_none());
        let streams = direct.flat_map(|flow| &flow.streams);
        let shares: Vec<f64> = streams.map(|stream| stream.goodput_bps).collect();
        let links = self.scene.links.iter().enumerate().map(|(index, link)| LinkOutcome {
            name: link.clone(),
            forward: self.direction_outcome(2 * index),
            backward: self.direction_outcome(2 * index + 1),
        });
        Outcome {
            seed: self.scene.seed,
            measured_ns: (self.scene.duration - self.probe.warmup).as_ns(),
            jain_index: jain_index(&shares),
            flows,
            links: links.collect(),
            events,
            traces,
        }
    }

    /// Adds what became of each request.
    fn with_requests(&self, mut traces: Traces) -> Traces {
        for flow in self.flows {
            let Some(Application::Web(web)) = flow.generator.application() else { continue };
            web.done().iter().for_each(|done| traces.request(&flow.name, done));
        }
        traces
    }

    fn flow_outcome(&self, index: usize) -> FlowOutcome {
        let flow = &self.flows[index];
        let counts = flow.counts.since(flow.before);
        let begin = flow.start.max(self.probe.warmup);
        let span_s = flow.stop.min(self.fabric.now).saturating_sub(begin).as_s();
        FlowOutcome {
            name: flow.name.clone(),
            kind: flow.kind,
            from: self.scene.nodes[flow.from].clone(),
            to: self.scene.nodes[flow.to].clone(),
            goodput_bps: rate(counts.delivered_bytes, span_s),
            delivered_bytes: counts.delivered_bytes,
            sent_packets: counts.sent_packets,
            received_packets: counts.received_packets,
            lost_packets: self.fabric.losses[index].packets,
            marked_packets: counts.marked_packets,
            rtt: flow.rtt.as_deref().map(Into::into),
            streams: self.stream_outcomes(flow, span_s),
            relay: flow.generator.relay().map(|relay| self.relay_outcome(relay)),
            application: flow.generator.application().and_then(Application::outcome),
            delay: flow.delay.as_deref().map(Into::into),
            echoes: flow
                .echoes
                .iter()
                .flat_map(|echoes| echoes.samples())
                .map(Into::into)
                .collect(),
        }
    }

    fn stream_outcomes(&self, flow: &Flow, span_s: f64) -> Vec<StreamOutcome> {
        let outcome = |(number, sender): (usize, u32)| {
            let connection = &self.endpoints.all[sender as usize].connection;
            let acked = self.endpoints.last_leg(sender).acked();
            let before = flow.acked_before.get(number).copied().unwrap_or(0);
            let statistics = connection.statistics();
            StreamOutcome {
                congestion: connection.congestion().name(),
                goodput_bps: rate(acked - before, span_s),
                retransmissions: statistics.retransmissions,
                recoveries: statistics.recoveries,
                timeouts: statistics.timeouts,
                ecn_reductions: statistics.ecn_reductions,
                srtt_ns: statistics.srtt.as_ns(),
                min_rtt_ns: statistics.min_rtt.as_ns(),
                window_bytes: statistics.window,
            }
        };
        flow.generator.senders().enumerate().map(outcome).collect()
    }

    fn relay_outcome(&self, relay: &Relay) -> RelayOutcome {
        let (most, now) = (relay.most, relay.holding(self.endpoints));
        RelayOutcome {
            linked_ack: relay.linked_ack(),
            flows: relay.flows() as u64,
            received_bytes: now.received,
            acknowledged_bytes: now.acknowledged,
            join_queue_bytes_max: most.join,
            split_queue_bytes_max: most.split,
            queues_bytes_max: most.both,
            ahead_bytes_max: relay.ahead_max,
            held_acks: relay.held() as u64,
            is_at_rest: relay.is_at_rest(self.endpoints),
        }
    }

    fn direction_outcome(&self, index: usize) -> DirectionOutcome {
        let direction = &self.fabric.directions[index];
        let (medium, port) = self.fabric.medium(index);
        let looked = self.probe.directions[index];
        let (totals, before) = (Totals::of(self.fabric, index), looked.before);
        let bytes_out = totals.bytes_out - before.bytes_out;
        let measured = (self.fabric.now - self.probe.warmup).as_s();
        let share = |rate: u64| bytes_out as f64 * 8.0 / measured / rate as f64;
        let rate_bps = direction.rate.map(|rate| rate.as_bit_per_s());
        DirectionOutcome {
            from: self.scene.nodes[direction.from].clone(),
            to: self.scene.nodes[direction.to].clone(),
            rate_bps,
            utilisation: rate_bps.map(share),
            packets_in: totals.packets_in - before.packets_in,
            packets_out: totals.packets_out - before.packets_out,
            bytes_out,
            dropped_queue: totals.dropped - before.dropped,
            dropped_loss: totals.lost - before.lost,
            marked: totals.marked - before.marked,
            queue_bytes_mean: looked.queue_bytes_sum as f64 / self.probe.looks.max(1) as f64,
            queue_bytes_max: looked.queue_bytes_max,
            special: special_outcome(totals.special, before.special, measured),
            classes: medium.queue(port).classes().into_iter().map(Into::into).collect(),
        }
    }
}

/// Bits per second of `bytes` in `span_s`; 0 where that is nothing.
fn rate(bytes: u64, span_s: f64) -> f64 {
    if span_s > 0.0 { bytes as f64 * 8.0 / span_s } else { 0.0 }
}

/// What only one kind of medium counts, from `before` on.
fn special_outcome(
    totals: MediumCounters,
    before: MediumCounters,
    measured_s: f64,
) -> Option<SpecialOutcome> {
    match (totals, before) {
        (MediumCounters::Wlan(totals), MediumCounters::Wlan(before)) => {
            Some(SpecialOutcome::Wlan(totals.since(before).told(measured_s)))
        }
        (MediumCounters::Credits(totals), MediumCounters::Credits(before)) => {
            let stalls = totals.since(before);
            Some(SpecialOutcome::Credits(CreditsOutcome {
                stalls: stalls.stalls,
                stalled_ns: stalls.stalled.as_ns(),
                stalled_share: stalls.stalled.as_s() / measured_s,
                stalled_at_congestion_ns: stalls.stalled_at_congestion.as_ns(),
                congested_ns: stalls.congested.as_ns(),
                congested_and_seen_ns: stalls.congested_and_seen.as_ns(),
                marked_packets: stalls.marked,
                marks_told: stalls.told,
            }))
        }
        _ => None,
    }
}
