//! From a plan and the replies to samples, in order; reads no clock and opens no socket.

use std::collections::VecDeque;

use weir_units::Time;

use crate::plan::{Plan, Request, SPACING};

/// How long replies that the kernel stamps wait to be read, if one wakes up by then anyway: nothing
/// needs a sample sooner, and a wake-up is most of what it costs.
const PATIENCE: Time = Time::from_ms(50);

/// A burst of echo requests; its fields are told in `weir/probe/sample.py`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Number of the sample, from 0.
    pub index: u64,
    /// When its first request was due.
    pub at: Time,
    /// By how much the latest of its requests left after its time.
    pub late: Time,
    /// Round-trip time of each request that was sent, `None` for one that was lost.
    pub rtts: Vec<Option<Time>>,
    /// Mean round-trip time, in ns, of the last sample before this one that had any.
    pub held_ns: Option<f64>,
    /// `struct tcp_info` of our own connection at the first request.
    pub tcp: Option<Vec<u8>>,
}

impl Sample {
    /// Mean round-trip time of the answered requests, in ns.
    fn mean_ns(&self) -> Option<f64> {
        let replies = self.rtts.iter().flatten();
        let (count, sum) =
            replies.fold((0_u64, 0_u64), |(count, sum), rtt| (count + 1, sum + rtt.as_ns()));
        (count > 0).then(|| sum as f64 / count as f64)
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A sample's turn has come: [`Sampler::begin`].
    Begin,
    /// Send the request with this key, then [`Sampler::sent`].
    Send(u64),
    /// Nothing, until that time; where `is_listening` also until a reply comes.
    Wait {
        /// When there is something to do.
        until: Time,
        /// Whether to wake up for a reply.
        is_listening: bool,
    },
    /// Nothing any more.
    Over,
}

/// A sample whose replies are still awaited.
#[derive(Debug)]
struct Open {
    sample: Sample,
    last_sent: Time,
    is_sent: bool,
    waiting: usize,
}

/// Holds samples until every request of theirs is answered or lost.
///
/// In a loop: give it the replies ([`Sampler::reply`]), take the samples that are over
/// ([`Sampler::take`]), and do what it says ([`Sampler::step`]).
#[derive(Debug)]
pub struct Sampler {
    plan: Plan,
    begin: Time,
    /// Not yet sent; its times count from `begin`.
    next: Option<Request>,
    open: VecDeque<Open>,
    held_ns: Option<f64>,
    /// Whether the kernel stamps replies, as far as is known.
    is_stamped: bool,
    /// Until when replies may wait to be read.
    nap: Time,
}

impl Sampler {
    /// A sampler whose sample 0 is due at `begin`.
    pub fn new(plan: Plan, begin: Time) -> Self {
        let next = plan.first();
        let (open, nap) = (VecDeque::new(), Time::ZERO);
        Self { plan, begin, next, open, held_ns: None, is_stamped: false, nap }
    }

    /// What to do at `now`. A request whose sample is over by then is not sent at all.
    pub fn step(&mut self, now: Time) -> Step {
        while let Some(request) = self.next {
            if now < self.begin.saturating_add(request.due) {
                break;
            }
            if self.open.back().is_none_or(|open| open.sample.index < request.sample)
                && request.number == 0
            {
                return Step::Begin;
            }
            if now < self.begin.saturating_add(request.end) {
                return Step::Send(self.plan.key(request));
            }
            self.advance(request);
        }
        self.wait(now)
    }

    /// The next sample's turn has come; `tcp` is what the kernel tells of our own connection.
    pub fn begin(&mut self, tcp: Option<Vec<u8>>) {
        let Some(Request { sample: index, due, .. }) = self.next else { return };
        let (at, late) = (self.begin.saturating_add(due), Time::ZERO);
        let sample = Sample { index, at, late, rtts: Vec::new(), held_ns: None, tcp };
        self.open.push_back(Open { sample, last_sent: Time::ZERO, is_sent: false, waiting: 0 });
    }

    /// The next request left at `now`.
    pub fn sent(&mut self, now: Time) {
        let Some(request) = self.next else { return };
        if let Some(open) = self.open.back_mut() {
            let late = now.saturating_sub(self.begin.saturating_add(request.due));
            open.sample.late = open.sample.late.max(late);
            open.sample.rtts.push(None);
            open.waiting += 1;
            open.last_sent = now;
        }
        self.advance(request);
    }

    /// A request was answered, as is known at `now`; in time, if its sample is still open.
    ///
    /// Where the kernel has stamped the reply (`is_stamped`) the next ones need not be read the
    /// moment they come. They come as far apart as the requests left, so that the last of those
    /// that are awaited is not expected before as many times the spacing.
    pub fn reply(&mut self, key: u64, rtt: Time, is_stamped: bool, now: Time) {
        self.is_stamped = is_stamped;
        let (index, number) = self.plan.of_key(key);
        let Some(first) = self.open.front().map(|open| open.sample.index) else { return };
        let place = index.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        let Some(open) = place.and_then(|place| self.open.get_mut(place)) else { return };
        if rtt > self.plan.timeout {
            return;
        }
        if let Some(place @ None) = open.sample.rtts.get_mut(number) {
            *place = Some(rtt);
            open.waiting -= 1;
        }
        if let Some(first) = self.open.front() {
            let awaited = Time::from_ms(first.waiting as u64);
            self.nap = if is_stamped { now.saturating_add(awaited) } else { now };
        }
    }

    /// Takes out the next sample if it is over at `now`.
    pub fn take(&mut self, now: Time) -> Option<Sample> {
        let is_over = |open: &mut Open| {
            open.is_sent && (open.waiting == 0 || now >= self.plan.lost_at(open.last_sent))
        };
        let mut sample = self.open.pop_front_if(is_over)?.sample;
        sample.held_ns = self.held_ns;
        self.held_ns = sample.mean_ns().or(self.held_ns);
        Some(sample)
    }

    /// Whether a reply may complete a sample.
    pub fn is_awaiting(&self) -> bool {
        self.open.front().is_some_and(|open| open.is_sent)
    }

    fn advance(&mut self, request: Request) {
        self.next = self.plan.after(request);
        if self.next.is_none_or(|next| next.sample > request.sample)
            && let Some(open) = self.open.back_mut()
        {
            open.is_sent = true;
        }
    }

    /// The first open sample alone decides: only its end lets anything out.
    fn wait(&self, now: Time) -> Step {
        let due = self.next.map(|request| self.begin.saturating_add(request.due));
        let first = self.open.front().filter(|open| open.is_sent);
        let Some(first) = first else {
            let wait = |until| Step::Wait { until, is_listening: false };
            return due.map_or(Step::Over, wait);
        };
        let lost = self.plan.lost_at(first.last_sent);
        let until = due.map_or(lost, |due| due.min(lost));
        let soon = if self.is_stamped { PATIENCE } else { SPACING };
        if until <= now.saturating_add(soon) {
            // One wakes up soon anyway.
            return Step::Wait { until, is_listening: false };
        }
        if now < self.nap {
            return Step::Wait { until: until.min(self.nap), is_listening: false };
        }
        Step::Wait { until, is_listening: true }
    }
}

impl Plan {
    fn lost_at(&self, sent: Time) -> Time {
        sent.saturating_add(self.timeout)
    }
}
