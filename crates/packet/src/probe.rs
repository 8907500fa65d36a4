//! Looks at queues and connections at regular intervals: each look takes one sample of all of
//! them.

use weir_link::MediumCounters;
use weir_units::Time;

use crate::config::Config;
use crate::endpoint::Endpoints;
use crate::fabric::Fabric;
use crate::flow::{Flow, Generator};
use crate::outcome::Traces;
use crate::trace::{ConnectionLook, Files, QueueLook};

/// What looks found, and when the next is due.
pub(crate) struct Probe {
    pub(crate) warmup: Time,
    interval: Time,
    pub(crate) looks: u64,
    pub(crate) directions: Vec<Looked>,
    /// Every look, if the result is to keep them.
    pub(crate) traces: Option<Traces>,
    /// Where every look is written, if that is wanted.
    pub(crate) files: Option<Files>,
}

/// What the probe knows of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) queue_bytes_sum: u128,
    pub(crate) queue_bytes_max: u64,
    pub(crate) before: Totals,
}

/// Counters of a direction, at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) lost: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) special: MediumCounters,
}

impl Probe {
    pub(crate) fn new(config: &Config, directions: usize) -> Self {
        Self {
            warmup: Time::from_ns(config.warmup_ns),
            interval: Time::from_ns(config.sample_ns),
            looks: 0,
            directions: vec![Looked::default(); directions],
            traces: config.trace.then(Traces::default),
            files: None,
        }
    }

    /// Looks at everything; the first look ends the warm-up. Returns when to look again.
    pub(crate) fn look(
        &mut self,
        links: &[String],
        fabric: &mut Fabric,
        flows: &mut [Flow],
        endpoints: &Endpoints,
    ) -> Time {
        let now = fabric.now;
        let is_first = self.looks == 0;
        for carrier in &mut fabric.carriers {
            carrier.medium.advance(now);
        }
        for (index, looked) in self.directions.iter_mut().enumerate() {
            let (medium, port) = fabric.medium(index);
            let queued = medium.backlog(port).bytes.count();
            looked.queue_bytes_sum += u128::from(queued);
            looked.queue_bytes_max = looked.queue_bytes_max.max(queued);
            if is_first {
                looked.before = Totals::of(fabric, index);
            }
        }
        for flow in flows.iter_mut() {
            if is_first {
                flow.before = flow.counts;
            }
            if let Generator::Relay(relay) = &mut flow.generator {
                relay.look(endpoints);
            }
            if is_first {
                flow.acked_before.extend(
                    flow.generator.senders().map(|sender| endpoints.last_leg(sender).acked()),
                );
            }
            for sender in flow.generator.senders() {
                let connection = &endpoints.all[sender as usize].connection;
                flow.rtt.get_or_insert_default().record(connection.statistics().srtt);
            }
        }
        self.looks += 1;
        self.keep(links, fabric, flows, endpoints);
        now.saturating_add(self.interval)
    }

    /// Keeps what a look finds, if that is wanted.
    fn keep(&mut self, links: &[String], fabric: &Fabric, flows: &[Flow], endpoints: &Endpoints) {
        if self.traces.is_none() && self.files.is_none() {
            return;
        }
        let time_ns = fabric.now.as_ns();
        for index in 0..fabric.directions.len() {
            let (medium, port) = fabric.medium(index);
            let backlog = medium.backlog(port);
            let look = QueueLook {
                time_ns,
                link: &links[index / 2],
                way: ["forward", "backward"][index % 2],
                queue_packets: backlog.packets,
                queue_bytes: backlog.bytes.count(),
            };
            self.traces.iter_mut().for_each(|traces| traces.queue(&look));
            if let MediumCounters::Credits(found) = medium.special(port, fabric.now) {
                let sent = medium.counters(port).bytes_out.count();
                self.traces.iter_mut().for_each(|traces| traces.credits(&look, sent, &found));
            }
            self.files.iter_mut().for_each(|files| files.queue(&look));
        }
        for flow in flows {
            if let Some((relay, traces)) = flow.generator.relay().zip(self.traces.as_mut()) {
                traces.relay(time_ns, &flow.name, relay.holding(endpoints));
            }
            for (stream, sender) in flow.generator.senders().enumerate() {
                let connection = &endpoints.all[sender as usize].connection;
                let statistics = connection.statistics();
                let look = ConnectionLook {
                    time_ns,
                    traffic: &flow.name,
                    stream: stream as u64,
                    window_bytes: statistics.window,
                    in_flight_bytes: statistics.in_flight,
                    srtt_ns: statistics.srtt.as_ns(),
                    delivered_bytes: endpoints.last_leg(sender).acked(),
                };
                self.traces.iter_mut().for_each(|traces| traces.connection(&look));
                self.files.iter_mut().for_each(|files| files.connection(&look));
            }
        }
    }
}

impl Totals {
    /// The counters of direction `index` now.
    pub(crate) fn of(fabric: &Fabric, index: usize) -> Self {
        let (medium, port) = fabric.medium(index);
        let counters = medium.counters(port);
        let classes = medium.queue(port).classes();
        Self {
            packets_in: counters.packets_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out.count(),
            lost: counters.lost,
            dropped: classes.iter().map(|class| class.dropped()).sum(),
            marked: classes.iter().map(|class| class.marked).sum(),
            special: medium.special(port, fabric.now),
        }
    }
}
