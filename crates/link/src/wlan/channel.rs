//! The channel: who begins when, what collides, who hears what.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_queue::{Backlog, Dropped, Packet, QueueDiscipline, Random};
use weir_units::{Bytes, Time};

use super::phy::Standard;
use super::radio::{Head, Port, Radio};
use crate::{AirCounters, DirectionConfig, LinkError, MediumCounters, PipeCounters, SharedMedium};

/// Largest contention window of the standard's management information base.
const WINDOW_MAX: u32 = 32_767;
/// `dot11ShortRetryLimit`: frames are below the RTS threshold, for there is no RTS.
const RETRY_LIMIT: u32 = 7;
const RETRY_LIMIT_MAX: u32 = 255;

/// A channel that stations share. Keys end in their unit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelConfig {
    /// The standard of all its stations.
    pub standard: Standard,
    /// Contention window of a first transmission (aCWmin); the standard's if absent.
    #[serde(default)]
    pub cw_min: Option<u32>,
    /// Largest contention window (aCWmax); the standard's if absent.
    #[serde(default)]
    pub cw_max: Option<u32>,
    /// Transmissions of a frame before it is given up.
    #[serde(default = "retry_limit")]
    pub retry_limit: u32,
    /// Whether a station with queues to several others gives each an equal share of its airtime
    /// (Høiland-Jørgensen et al., USENIX ATC 2017) instead of an equal number of frames.
    #[serde(default)]
    pub airtime_fairness: bool,
}

const fn retry_limit() -> u32 {
    RETRY_LIMIT
}

impl ChannelConfig {
    /// A channel of `standard` as the standard has it.
    pub const fn new(standard: Standard) -> Self {
        Self {
            standard,
            cw_min: None,
            cw_max: None,
            retry_limit: RETRY_LIMIT,
            airtime_fairness: false,
        }
    }

    /// Whether there can be such a channel; its contention windows, at first and at most.
    ///
    /// # Errors
    /// [`LinkError`], which names the key.
    pub fn check(&self) -> Result<(u32, u32), LinkError> {
        let (least, most) = self.standard.windows();
        let (least, most) = (self.cw_min.unwrap_or(least), self.cw_max.unwrap_or(most));
        if !(1..=WINDOW_MAX).contains(&least) {
            let reason = format!("a window of 1 to {WINDOW_MAX} slots is allowed");
            return Err(LinkError::new("cw_min", least, reason));
        }
        if !(least..=WINDOW_MAX).contains(&most) {
            let reason = format!("a window from cw_min = {least} to {WINDOW_MAX} is allowed");
            return Err(LinkError::new("cw_max", most, reason));
        }
        if !(1..=RETRY_LIMIT_MAX).contains(&self.retry_limit) {
            let reason = format!("1 to {RETRY_LIMIT_MAX} transmissions are allowed");
            return Err(LinkError::new("retry_limit", self.retry_limit, reason));
        }
        Ok((least, most))
    }

    /// The channel, idle and without stations.
    ///
    /// # Errors
    /// What [`check`](Self::check) refuses.
    pub fn build<P: Packet + Send + 'static>(&self) -> Result<Channel<P>, LinkError> {
        Ok(Channel::new(self, self.check()?))
    }
}

/// Stations that contend for one channel.
///
/// A *port* is what one station has for another: a queue, a PHY rate, a loss model.
pub struct Channel<P> {
    standard: Standard,
    window_min: u32,
    window_max: u32,
    retry_limit: u32,
    airtime_fairness: bool,
    radios: Vec<Radio<P>>,
    ports: Vec<Port<P>>,
    /// When the first slot of contention begins: DIFS or EIFS after what was last on the air.
    open_at: Time,
    /// When the frames on the air end.
    on_air: Option<Time>,
    /// Whose they are.
    senders: Vec<usize>,
    arrived: VecDeque<(Time, usize, P)>,
    dropped: Vec<Dropped<P>>,
    lost: Vec<P>,
}

impl<P: Packet + Send + 'static> Channel<P> {
    fn new(config: &ChannelConfig, windows: (u32, u32)) -> Self {
        Self {
            standard: config.standard,
            window_min: windows.0,
            window_max: windows.1,
            retry_limit: config.retry_limit,
            airtime_fairness: config.airtime_fairness,
            radios: Vec::new(),
            ports: Vec::new(),
            open_at: config.standard.difs(),
            on_air: None,
            senders: Vec::new(),
            arrived: VecDeque::new(),
            dropped: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// One station more, whose backoff comes from `random`; returns its number.
    pub fn add_radio(&mut self, random: Random) -> usize {
        let window = self.window_min;
        let radio =
            Radio { ports: Vec::new(), head: None, window, backoff: None, served: 0, random };
        self.radios.push(radio);
        self.radios.len() - 1
    }

    /// One port more, of station `radio`; returns its number. The rate is the PHY's.
    ///
    /// # Errors
    /// What [`Standard::check`] refuses, and a wrong queue or loss model.
    pub fn add_port(
        &mut self,
        radio: usize,
        config: &DirectionConfig,
        mtu: Bytes,
        random: impl Fn(&str) -> Random,
    ) -> Result<usize, LinkError> {
        let rate = self.standard.check(config, mtu)?;
        self.ports.push(Port {
            radio,
            rate,
            loss: config.build_loss(&random)?,
            queue: config.build_queue(mtu, &random)?,
            held_until: Time::ZERO,
            served: 0,
            counters: PipeCounters::default(),
            air: AirCounters::default(),
        });
        let port = self.ports.len() - 1;
        self.radios[radio].ports.push(port);
        Ok(port)
    }
}

impl<P: Packet> SharedMedium<P> for Channel<P> {
    fn arrive(&mut self, port: usize, packet: P, now: Time) {
        self.advance(now);
        let at = &mut self.ports[port];
        at.counters.packets_in += 1;
        at.counters.bytes_in += packet.size();
        let radio = at.radio;
        if at.queue.backlog().is_empty() {
            at.served = at.served.max(self.radios[radio].served);
        }
        at.held_until = Time::ZERO;
        at.queue.enqueue(packet, now, &mut self.dropped);
        self.contend(radio, now);
    }

    fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            for port in 0..self.ports.len() {
                if self.ports[port].run_timers(at, &mut self.dropped) {
                    self.contend(self.ports[port].radio, at);
                }
            }
            match self.on_air {
                Some(end) if end <= at => self.finish(at),
                None if self.next_start().is_some_and(|start| start <= at) => self.begin(at),
                _ => {}
            }
        }
    }

    fn release(&mut self, now: Time) -> Option<(usize, P)> {
        self.take_arrived(now).map(|(_, port, packet)| (port, packet))
    }

    fn next_wake(&self) -> Option<Time> {
        let arrived = self.arrived.front().map(|(at, ..)| *at);
        arrived.into_iter().chain(self.next_event()).min()
    }

    fn discarded(&mut self) -> Option<P> {
        self.lost.pop().or_else(|| self.dropped.pop().map(|dropped| dropped.packet))
    }

    fn counters(&self, port: usize) -> &PipeCounters {
        &self.ports[port].counters
    }

    fn special(&self, port: usize, _now: Time) -> MediumCounters {
        MediumCounters::Wlan(*self.air(port))
    }

    /// The frame that the station contends for is no longer in its queue.
    fn backlog(&self, port: usize) -> Backlog {
        self.ports[port].queue.backlog()
    }

    fn queue(&self, port: usize) -> &dyn QueueDiscipline<P> {
        &self.ports[port].queue
    }
}

impl<P: Packet> Channel<P> {
    /// The next packet that has come through up to `now`, with the instant at which it did and its
    /// port. Call [`advance`](SharedMedium::advance) first: late calls change nothing but their own
    /// moment, for everything happens at its own instant.
    pub fn take_arrived(&mut self, now: Time) -> Option<(Time, usize, P)> {
        if self.arrived.front()?.0 > now {
            return None;
        }
        let (at, port, packet) = self.arrived.pop_front()?;
        let counters = &mut self.ports[port].counters;
        counters.packets_out += 1;
        counters.bytes_out += packet.size();
        Some((at, port, packet))
    }

    /// An instant before which no packet comes through, if none arrives: for who need not see
    /// frames begin. `None` if nothing is under way.
    pub fn next_arrival(&self) -> Option<Time> {
        let arrived = self.arrived.front().map(|(at, ..)| *at);
        let frame = self.on_air.or_else(|| self.next_start()?.checked_add(self.shortest_head()?));
        let timers = self.ports.iter().filter_map(|port| port.queue.next_event());
        timers.chain(arrived).chain(frame).min()
    }

    /// How long the shortest frame that a station contends for takes.
    fn shortest_head(&self) -> Option<Time> {
        let heads = self.radios.iter().filter_map(|radio| radio.head.as_ref());
        let span =
            |head: &Head<P>| self.standard.frame(head.packet.size(), self.ports[head.port].rate);
        heads.map(span).min()
    }

    /// How many packets have left the queue of `port` and were not yet released.
    pub fn under_way(&self, port: usize) -> u64 {
        let head = &self.radios[self.ports[port].radio].head;
        let contending = head.as_ref().is_some_and(|head| head.port == port);
        let arrived = self.arrived.iter().filter(|(_, of, _)| *of == port).count();
        u64::from(contending) + arrived as u64
    }

    /// Who sends by `port`, or hears it, has left: what waits for it is lost, and takes no airtime.
    /// Only a frame that is on the air goes on to its end.
    pub fn forget(&mut self, port: usize, now: Time) {
        self.advance(now);
        let radio = self.ports[port].radio;
        if !self.senders.contains(&radio) {
            let head = self.radios[radio].head.take_if(|head| head.port == port);
            self.lose(port, head.map(|head| head.packet));
        }
        while let Some(packet) = self.ports[port].queue.dequeue(now, &mut self.dropped) {
            self.lose(port, Some(packet));
        }
        self.contend(radio, now);
    }

    fn lose(&mut self, port: usize, packet: Option<P>) {
        self.ports[port].counters.lost += u64::from(packet.is_some());
        self.lost.extend(packet);
    }

    /// What the frames of `port` have met so far.
    pub fn air(&self, port: usize) -> &AirCounters {
        &self.ports[port].air
    }

    fn next_event(&self) -> Option<Time> {
        let turn = self.on_air.or_else(|| self.next_start());
        self.ports.iter().filter_map(|port| port.queue.next_event()).chain(turn).min()
    }

    /// When the next frame begins, while nothing is on the air.
    fn next_start(&self) -> Option<Time> {
        let busy = self.radios.iter().filter(|radio| radio.head.is_some());
        busy.filter_map(|radio| radio.backoff).min().map(|slots| self.slot_start(slots))
    }

    /// When the slot of that number begins, counted from when the channel opens.
    fn slot_start(&self, slots: u64) -> Time {
        let span = self.standard.slot().as_ns().saturating_mul(slots);
        self.open_at.saturating_add(Time::from_ns(span))
    }

    /// Station `radio` takes up the next frame, if it has none and there is one.
    fn contend(&mut self, radio: usize, now: Time) {
        if self.radios[radio].head.is_some() {
            return;
        }
        let Some((port, packet)) = self.pull(radio, now) else { return };
        let is_idle = self.on_air.is_none() && now >= self.open_at;
        let backoff = self.radios[radio].backoff;
        let is_counting = backoff.is_some_and(|slots| self.slot_start(slots) >= now || !is_idle);
        let slot = self.standard.slot().as_ns();
        let at = &mut self.radios[radio];
        at.head = Some(Head { port, packet, failures: 0 });
        if is_idle && !is_counting {
            at.backoff = Some((now - self.open_at).as_ns().div_ceil(slot));
        } else if !is_counting {
            at.draw();
        }
    }

    /// The next packet of the port of `radio` that was served least.
    fn pull(&mut self, radio: usize, now: Time) -> Option<(usize, P)> {
        loop {
            let radio = &mut self.radios[radio];
            let ready = radio.ports.iter().filter(|&&port| self.ports[port].is_ready(now));
            let index = *ready.min_by_key(|&&port| self.ports[port].served)?;
            let port = &mut self.ports[index];
            let Some(packet) = port.queue.dequeue(now, &mut self.dropped) else {
                port.held_until = port.queue.next_event().unwrap_or(Time::MAX);
                continue;
            };
            radio.served = port.served;
            if !self.airtime_fairness {
                port.served += 1;
            }
            return Some((index, packet));
        }
    }

    /// The slot has come for which some stations have been waiting.
    fn begin(&mut self, at: Time) {
        let slots = (at - self.open_at).as_ns() / self.standard.slot().as_ns();
        let mut end = at;
        for (index, radio) in self.radios.iter_mut().enumerate() {
            let remaining = radio.backoff.and_then(|backoff| backoff.checked_sub(slots));
            radio.backoff = remaining.filter(|&remaining| remaining > 0);
            let Some(head) = &radio.head else { continue };
            if remaining == Some(0) {
                let span = self.standard.frame(head.packet.size(), self.ports[head.port].rate);
                end = end.max(at.saturating_add(span));
                self.senders.push(index);
            }
        }
        self.on_air = Some(end);
    }

    /// The last of the frames on the air has ended.
    fn finish(&mut self, at: Time) {
        self.on_air = None;
        self.open_at = at.saturating_add(self.standard.eifs());
        let mut senders = std::mem::take(&mut self.senders);
        let is_collision = senders.len() > 1;
        for &radio in &senders {
            self.conclude(radio, is_collision, at);
        }
        for radio in senders.drain(..) {
            self.contend(radio, at);
        }
        self.senders = senders;
    }

    /// What becomes of the frame that `radio` has sent.
    fn conclude(&mut self, radio: usize, is_collision: bool, at: Time) {
        let sender = &mut self.radios[radio];
        let Some(mut head) = sender.head.take() else { return };
        let port = &mut self.ports[head.port];
        let mut airtime = self.standard.frame(head.packet.size(), port.rate);
        let is_corrupted = !is_collision && port.loss.strikes();
        port.air.transmissions += 1;
        port.air.collisions += u64::from(is_collision);
        port.air.corrupted += u64::from(is_corrupted);
        head.failures += 1;
        if !is_collision && !is_corrupted {
            let answer = self.standard.sifs() + self.standard.ack(port.rate);
            airtime = airtime.saturating_add(answer);
            self.open_at = at.saturating_add(answer + self.standard.difs());
            sender.window = self.window_min;
            self.arrived.push_back((at, head.port, head.packet));
        } else if head.failures >= self.retry_limit {
            port.air.given_up += 1;
            port.counters.lost += 1;
            sender.window = self.window_min;
            self.lost.push(head.packet);
        } else {
            sender.window = (2 * sender.window + 1).min(self.window_max);
            sender.head = Some(head);
        }
        port.air.airtime = port.air.airtime.saturating_add(airtime);
        if self.airtime_fairness {
            port.served = port.served.saturating_add(airtime.as_ns());
        }
        sender.draw();
    }
}
