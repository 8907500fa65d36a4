//! When a connection looks anew for what its path carries.
//!
//! A connection that had little of its path has learnt a small window there, and from that it grows
//! as on a path that is full: with packets of 9000 bytes CUBIC takes seconds until it fills what
//! has become free. So it starts slowly again, as one that has just begun does, where the path is
//! no longer what it was: the queue that its packets waited in has gone, or it is promised more. A
//! path whose queues stay as they are, empty ones too, is no such case, and there it grows as any
//! other.

use std::collections::VecDeque;
use std::time::Duration;

use crate::socket::Outflow;

/// So long after a change, what it has learnt before counts for nothing.
const NEWS: Duration = Duration::from_secs(1);
/// A promise that is so many times as high is news.
const MORE: f64 = 2.0;
/// Over so long, or two round trips, it is seen how fast what it sends arrives.
const SPAN: Duration = Duration::from_millis(100);

/// What is known of the path of one connection.
#[derive(Debug, Default)]
pub(super) struct Anew {
    /// What had arrived at each look of the last span.
    arrived: VecDeque<(Duration, u64)>,
    /// When its packets last waited in a queue.
    waited: Option<Duration>,
    /// When it was last promised more.
    raised: Option<Duration>,
    share: f64,
}

impl Anew {
    /// Takes a look at a connection with such a share of the promise, beside which connections of
    /// the same transfer yield that let packets wait for so long; says whether it is to begin anew.
    pub(super) fn look(
        &mut self,
        now: Duration,
        seen: Outflow,
        share: f64,
        own_wait: Duration,
    ) -> bool {
        let least = seen.least_round_trip;
        let takes = self.takes(now, seen);
        let is_queued = |takes: Duration| takes > least + Duration::from_millis(10).max(least / 2);
        let free = least + Duration::from_millis(4).max(least / 8);
        if is_queued(seen.round_trip) || takes.is_some_and(is_queued) {
            self.waited = Some(now);
        }
        if share > MORE * self.share {
            self.raised = Some(now);
        }
        self.share = share;
        let is_news = |at: Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) <= NEWS);
        // Whoever has more to send now waits for no queue that those make room in.
        let is_free = |takes: Duration| {
            (is_news(self.waited) && takes <= free)
                || (is_news(self.raised) && takes <= free + own_wait)
        };
        seen.is_held_back && takes.is_some_and(is_free)
    }

    /// How long packets take there and back by what arrives of what is on its way, as a queue's
    /// length over its throughput; none where too little is seen. The kernel's own smoothed round
    /// trip forgets a queue only with the packets that come after it, which are few.
    fn takes(&mut self, now: Duration, seen: Outflow) -> Option<Duration> {
        self.arrived.push_back((now, seen.acked));
        let span = SPAN.max(2 * seen.least_round_trip);
        while self.arrived.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= span) {
            self.arrived.pop_front();
        }
        let (since, before) = *self.arrived.front()?;
        let (watched, arrived) = (now.saturating_sub(since), seen.acked.saturating_sub(before));
        if watched < span || seen.on_the_way == 0 {
            return None;
        }
        // Nothing at all is as slow as can be.
        let takes_s = watched.as_secs_f64() * seen.on_the_way as f64 / arrived.max(1) as f64;
        Some(Duration::try_from_secs_f64(takes_s).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: f64 = 1e6;
    const LEAST: Duration = Duration::from_millis(20);

    /// A connection with so much on its way, of which some arrives; looked at every 50 ms.
    struct Seen {
        anew: Anew,
        now: Duration,
        told: Outflow,
        own_wait: Duration,
    }

    impl Seen {
        fn new(share: f64) -> Self {
            let told = Outflow {
                round_trip: LEAST,
                least_round_trip: LEAST,
                on_the_way: 100_000,
                is_held_back: true,
                ..Outflow::default()
            };
            let anew = Anew { share, ..Anew::default() };
            Self { anew, now: Duration::ZERO, told, own_wait: Duration::ZERO }
        }

        /// So many looks at packets that take so long; at how many of them it is to begin anew.
        fn looks(&mut self, count: usize, takes_ms: f64, share: f64) -> usize {
            let begins = (0..count).filter(|_| {
                self.now += Duration::from_millis(50);
                self.told.acked += (self.told.on_the_way as f64 * 50.0 / takes_ms) as u64;
                self.anew.look(self.now, self.told, share, self.own_wait)
            });
            begins.count()
        }
    }

    #[test]
    fn what_was_learnt_in_a_queue_is_forgotten_when_the_queue_is_gone() {
        let mut seen = Seen::new(SHARE);
        assert_eq!(seen.looks(20, 20.0, SHARE), 0);
        // Starved.
        assert_eq!(seen.looks(60, 900.0, SHARE), 0);
        // Two looks show that the queue has gone, and for a second that is news.
        assert_eq!(seen.looks(60, 20.0, SHARE), 20);
        // One that is neither gone nor long.
        assert_eq!(seen.looks(20, 28.0, SHARE), 0);
        // Not even a packet comes through.
        assert_eq!(seen.looks(20, 1e9, SHARE), 0);
        assert!(seen.looks(20, 21.0, SHARE) > 0);
    }

    #[test]
    fn what_is_slow_to_forget_a_queue_is_no_queue() {
        let mut seen = Seen::new(SHARE);
        seen.told.round_trip = Duration::from_millis(400);
        assert!(seen.looks(20, 20.0, SHARE) >= 18);
    }

    #[test]
    fn whoever_is_promised_more_begins_anew() {
        let mut seen = Seen::new(0.0);
        assert_eq!(seen.looks(20, 20.0, 0.0), 0);
        assert_eq!(seen.looks(60, 20.0, SHARE), 21);
        assert_eq!(seen.looks(20, 20.0, 1.9 * SHARE), 0);
        // Not before the queue has gone that others have left there.
        assert_eq!(seen.looks(10, 29.0, 0.0) + seen.looks(10, 29.0, SHARE), 0);
        assert!(seen.looks(20, 20.0, SHARE) > 0);
    }

    #[test]
    fn whoever_is_promised_more_waits_for_no_queue_that_its_own_transfer_makes_room_in() {
        let mut seen = Seen::new(0.0);
        seen.own_wait = Duration::from_millis(60);
        // A queue that stays is no news.
        assert_eq!(seen.looks(40, 70.0, 0.0), 0);
        assert_eq!(seen.looks(60, 70.0, SHARE), 21);
        // Others fill one that is longer.
        assert_eq!(seen.looks(10, 100.0, 0.0) + seen.looks(10, 100.0, SHARE), 0);
    }

    #[test]
    fn whoever_is_not_held_back_or_sends_nothing_goes_on() {
        for change in [
            |told: &mut Outflow| told.is_held_back = false,
            |told: &mut Outflow| told.on_the_way = 0,
        ] {
            let mut seen = Seen::new(SHARE);
            seen.looks(20, 900.0, SHARE);
            change(&mut seen.told);
            assert_eq!(seen.looks(20, 20.0, SHARE), 0);
        }
    }
}
