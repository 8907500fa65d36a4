//! Spare connections: what each may take, and what becomes of what is stuck.
//!
//! A *lane* is a data connection in a lower class, which routers may starve for as long as they
//! like. So that no file waits for it, a lane takes a chunk only where it is expected to deliver it
//! before the promised connections would be done with all that is left; and what is stuck on it is
//! *raised*: the whole connection goes on in the ordinary class, within the promised rate, until it
//! is empty. Nor does the last file wait for a slow promise: what the promised connections have
//! begun at the very end is *lowered* where lanes are faster, or may be; and a lane that was raised
//! goes back where its share is slow, for the path may be free again. Nothing is sent twice, and no
//! two packets of a connection are of different classes but for those under way at such a moment.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_units::Rate;

use super::Sending;
use super::anew::Anew;
use crate::pace::Standing;
use crate::socket::{self, Outflow};
use crate::spare::YIELDING_WAIT;
use crate::wire::CHUNK_SIZE;

/// Between two looks at the lanes; who waits for work that it may not take looks as often.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// What is held and moves no further for this long, or two round trips, is stuck.
const STUCK: Duration = Duration::from_secs(2);
/// The same once the promised connections have nothing left to send.
const STUCK_AT_END: Duration = Duration::from_millis(250);
/// A lane that was stuck takes nothing for this long at first, and twice as long each time, unless
/// its pace changes. A try in vain costs a few packets, which a starved class does not pass on
/// anyway; to come back late leaves the path idle.
const REST_FIRST: Duration = Duration::from_millis(500);
const REST_LAST: Duration = Duration::from_secs(1);
/// What would take longer than this within the promised rate is worth a try in the lower class.
const WORTH_A_TRY_S: f64 = 1.0;
/// For how long a lane's speed is watched before it is known, and over which it is averaged.
const WATCH: Duration = Duration::from_millis(500);

/// The connections of one operation of which some are lanes; none otherwise.
#[derive(Debug)]
pub(super) struct Lanes {
    began: Instant,
    /// As the operation has them: the promised ones come first.
    each: Vec<Lane>,
    promised: usize,
    over: Mutex<bool>,
    changed: Condvar,
}

/// One connection, spare or promised.
#[derive(Debug)]
struct Lane {
    socket: Arc<TcpStream>,
    judge: Mutex<Judge>,
    anew: Mutex<Anew>,
}

impl Lanes {
    pub(super) fn new(sockets: &[Arc<TcpStream>], promised: usize) -> Self {
        let judge = |index| if index < promised { Judge::promised() } else { Judge::spare() };
        let lane = |(index, socket): (usize, &Arc<TcpStream>)| Lane {
            socket: Arc::clone(socket),
            judge: Mutex::new(judge(index)),
            anew: Mutex::default(),
        };
        let sockets = if promised < sockets.len() { sockets } else { &[] };
        let each = sockets.iter().enumerate().map(lane).collect();
        let (over, changed) = (Mutex::new(false), Condvar::new());
        Self { began: Instant::now(), each, promised, over, changed }
    }

    /// There is no spare connection.
    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// What the fastest lane may do in the lower class.
    fn speed(&self, now: Duration) -> Speed {
        let lanes = (self.promised..self.each.len()).map(|lane| self.judge(lane));
        let (mut fastest, mut may_try) = (None, false);
        for judge in lanes {
            fastest = judge.speed().into_iter().chain(fastest).reduce(f64::max);
            may_try |= judge.standing != Standing::Promised && now >= judge.rests_until;
        }
        match fastest {
            Some(speed) => Speed::Known(speed),
            None if may_try => Speed::Unknown,
            None => Speed::Starved,
        }
    }

    /// Whether a connection is a lane.
    pub(super) fn has(&self, index: usize) -> bool {
        (self.promised..self.each.len()).contains(&index)
    }

    fn judge(&self, lane: usize) -> MutexGuard<'_, Judge> {
        self.each[lane].judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more is to be watched.
    pub(super) fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the operation began.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until the next look is due; says whether there is one.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(over, pause, |over| !*over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Sending {
    /// The thread that looks after the lanes: every so often, and as soon as the pace changes.
    pub(super) fn watch_lanes(&self) {
        let mut known = self.pace.changes();
        loop {
            let changes = self.pace.wait_for_change(known, LOOK);
            if self.lanes.is_over() {
                return;
            }
            let is_news = changes != known;
            known = changes;
            if self.look_at_lanes(is_news) || is_news {
                // Whoever waits for work that it could not take may do so now.
                self.queue.wake();
            }
        }
    }

    /// Takes a look at all connections, of which the pace may be new; says whether a lane may take
    /// work that could not before.
    fn look_at_lanes(&self, is_news: bool) -> bool {
        let now = self.lanes.age();
        let outlook = self.outlook(now);
        let yields = self.pace.yields();
        let mut opens = false;
        for (index, lane) in self.lanes.each.iter().enumerate() {
            // It fails only on a connection that is gone, whose thread reports that.
            let Ok(outflow) = socket::outflow(&lane.socket) else { continue };
            let share = self.pace.share_of(index);
            let mut judge = self.lanes.judge(index);
            if is_news {
                judge.take_news(now);
            }
            let was_open = judge.open;
            if let Some(standing) = judge.look(now, outflow, Outlook { share, ..outlook }) {
                self.pace.set_standing(index, standing);
            }
            opens |= judge.open && !was_open;
            let is_lower = judge.standing == Standing::Lower;
            drop(judge);
            let mut anew = lane.anew.lock().unwrap_or_else(PoisonError::into_inner);
            let own_wait = if yields { YIELDING_WAIT } else { Duration::ZERO };
            let begins = anew.look(now, outflow, share, own_wait);
            // Where the mover runs the control of lanes, the kernel's is not to be in its way.
            let is_led = yields && is_lower;
            if begins || (is_led && outflow.is_held_back) {
                self.pace.begin_anew(index);
            }
        }
        opens
    }

    /// No more lane is to be watched.
    pub(super) fn end_lanes(&self) {
        self.lanes.end();
        self.pace.wake();
    }

    /// How the promised connections stand.
    fn outlook(&self, now: Duration) -> Outlook {
        let done = self.progress.snapshot();
        let left = done.bytes_total.saturating_sub(done.bytes_done);
        let rate = self.promised_rate();
        let bytes_per_s = rate.as_bit_per_s() as f64 / 8.0;
        let alone_s = match rate {
            Rate::MAX => 0.0,
            Rate::ZERO => f64::INFINITY,
            _ if !done.total_is_known => f64::INFINITY,
            _ => left as f64 / bytes_per_s,
        };
        let connections = self.sockets().len() as u64;
        let spare_bytes_per_s = self.pace.spare_rate().as_bit_per_s() as f64 / 8.0;
        let ending = self.queue.is_empty();
        Outlook {
            alone_s,
            // Each has its own.
            share: 0.0,
            allowed: spare_bytes_per_s / connections as f64,
            ending,
            last: ending && done.total_is_known && left <= connections * CHUNK_SIZE,
            speed: self.lanes.speed(now),
        }
    }

    /// The rate of the connections that are no lanes.
    pub(super) fn promised_rate(&self) -> Rate {
        self.pace.rate()
    }

    /// Whether a lane may take work.
    pub(super) fn is_open(&self, lane: usize) -> bool {
        self.lanes.judge(lane).open
    }

    /// A lane has taken work.
    pub(super) fn begin_on(&self, lane: usize) {
        let mut judge = self.lanes.judge(lane);
        if judge.begin() {
            self.pace.set_standing(lane, Standing::Lower);
        }
    }

    /// The kernel has all that a lane had taken.
    pub(super) fn end_on(&self, lane: usize) {
        self.lanes.judge(lane).busy = false;
    }
}

/// What the promised connections would do without the lanes.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    /// How long they would take for all that no connection has begun.
    alone_s: f64,
    /// What a lane would have of the promised rate, in bytes per second.
    share: f64,
    /// What each would have of the spare rate if all were in the lower class, in bytes per second;
    /// nothing while that is paused.
    allowed: f64,
    /// They have nothing left to take.
    ending: bool,
    /// Nothing at all is left but what connections have begun.
    last: bool,
    /// What the fastest lane does in the lower class.
    speed: Speed,
}

impl Outlook {
    /// The lower class may take nothing more.
    fn is_paused(self) -> bool {
        self.allowed <= 0.0
    }
}

/// What the lower class carries on one lane.
#[derive(Clone, Copy, Debug)]
enum Speed {
    /// So many bytes per second.
    Known(f64),
    /// Nobody has seen it.
    Unknown,
    /// Nothing, as far as was seen lately.
    Starved,
}

/// What is known of a lane, and so what is to be done.
#[derive(Debug)]
struct Judge {
    /// It is one of the promise's.
    is_promised: bool,
    standing: Standing,
    /// Its thread has work that the kernel does not have yet.
    busy: bool,
    /// It may take work.
    open: bool,
    looked: Duration,
    acked: u64,
    /// When something moved, or nothing was held.
    moved: Duration,
    /// In the lower class: what was seen to move, and for how long something was to be moved.
    bytes: f64,
    watched: Duration,
    /// Bytes that moved in the lower class since something was stuck.
    since_stuck: u64,
    rest: Duration,
    rests_until: Duration,
    /// When it was raised.
    raised: Duration,
    /// When its pace was last new.
    told: Duration,
}

impl Judge {
    fn promised() -> Self {
        Self { is_promised: true, standing: Standing::Promised, ..Self::spare() }
    }

    fn spare() -> Self {
        Self {
            is_promised: false,
            standing: Standing::Resting,
            busy: false,
            open: false,
            looked: Duration::ZERO,
            acked: 0,
            moved: Duration::ZERO,
            bytes: 0.0,
            watched: Duration::ZERO,
            since_stuck: 0,
            rest: Duration::ZERO,
            rests_until: Duration::ZERO,
            raised: Duration::ZERO,
            told: Duration::ZERO,
        }
    }

    /// Work begins; says whether the lane is to go into the lower class for it.
    fn begin(&mut self) -> bool {
        self.busy = true;
        let rested = self.standing == Standing::Resting;
        if rested {
            self.standing = Standing::Lower;
        }
        rested
    }

    /// Its pace is new: whoever allots it knows of something to try.
    fn take_news(&mut self, now: Duration) {
        self.told = now;
        self.rests_until = self.rests_until.min(now);
    }

    /// Takes a look; returns how the lane stands from now on, if that is new.
    fn look(&mut self, now: Duration, seen: Outflow, outlook: Outlook) -> Option<Standing> {
        let grew = seen.acked.saturating_sub(self.acked);
        let span = now.saturating_sub(self.looked);
        (self.acked, self.looked) = (seen.acked, now);
        if grew > 0 || seen.held == 0 {
            self.moved = now;
        }
        if self.standing == Standing::Lower {
            self.measure(grew, span, seen.held);
        }
        let before = self.standing;
        self.standing = match before {
            Standing::Promised if self.is_promised => self.lowered(seen, outlook),
            Standing::Lower if self.is_promised && (!outlook.last || outlook.is_paused()) => {
                Standing::Promised
            }
            Standing::Lower if self.is_stuck(now, seen, outlook.ending) => {
                self.note_stuck();
                Standing::Promised
            }
            Standing::Lower if self.is_slow(seen, outlook) => {
                if self.is_promised {
                    // What moves, but slowly, would be lowered again at once.
                    self.note_stuck();
                }
                Standing::Promised
            }
            _ if !self.is_promised && !self.busy && seen.held == 0 => Standing::Resting,
            Standing::Promised if !self.is_promised && self.tries_again(now, seen, outlook) => {
                self.moved = now;
                Standing::Lower
            }
            standing => standing,
        };
        if before == Standing::Lower && self.standing == Standing::Promised {
            self.raised = now;
        }
        if before == Standing::Promised && self.standing == Standing::Resting {
            self.rests_until = now + self.rest;
        }
        // One that is tried again shows first that something moves.
        let on_trial =
            self.standing == Standing::Lower && self.rest > Duration::ZERO && self.since_stuck == 0;
        self.open = self.standing != Standing::Promised
            && now >= self.rests_until
            && !on_trial
            && !outlook.is_paused()
            && self.pays(seen.held, outlook);
        (self.standing != before).then_some(self.standing)
    }

    /// How a promised connection stands that has been within the promised rate: lowered at the very
    /// end, where a lane is more than twice as fast or may be, unless it has been stuck or slow
    /// there.
    fn lowered(&self, seen: Outflow, outlook: Outlook) -> Standing {
        let never_stuck = self.rest == Duration::ZERO;
        let is_slower = match outlook.speed {
            Speed::Known(speed) => speed > 2.0 * outlook.share,
            Speed::Unknown => outlook.alone_s + seen.held as f64 / outlook.share > WORTH_A_TRY_S,
            Speed::Starved => false,
        };
        let may_be_faster = !outlook.is_paused() && outlook.allowed >= 2.0 * outlook.share;
        if outlook.last && seen.held > 0 && may_be_faster && is_slower && never_stuck {
            Standing::Lower
        } else {
            Standing::Promised
        }
    }

    /// Whether a lane that was raised goes back: what was stuck moves again, and at its share of
    /// the promised rate it would not soon be done. Before that, what was lost in the lower class
    /// may still wait for its timer to be sent again.
    fn tries_again(&self, now: Duration, seen: Outflow, outlook: Outlook) -> bool {
        let rested =
            now.saturating_sub(self.raised) >= self.rest.max(REST_FIRST) || self.told > self.raised;
        let moves = self.moved > self.raised;
        let share_is_slow = self.left(seen) > outlook.share * WORTH_A_TRY_S;
        // What is known to be slower than its share was raised for that.
        rested && moves && share_is_slow && !outlook.is_paused() && self.speed().is_none()
    }

    /// Bytes that it has to deliver.
    fn left(&self, seen: Outflow) -> f64 {
        (seen.held + if self.busy { CHUNK_SIZE } else { 0 }) as f64
    }

    fn measure(&mut self, grew: u64, span: Duration, held: u64) {
        self.since_stuck += grew;
        if self.since_stuck >= CHUNK_SIZE {
            self.rest = Duration::ZERO;
        }
        if grew == 0 && held == 0 {
            return;
        }
        self.bytes += grew as f64;
        self.watched += span;
        if self.watched > 2 * WATCH {
            // The older half counts half.
            self.bytes /= 2.0;
            self.watched /= 2;
        }
    }

    /// Bytes per second in the lower class, once known: it was watched for long enough, or has
    /// delivered a whole chunk and was never stuck.
    fn speed(&self) -> Option<f64> {
        let has_shown = self.rest == Duration::ZERO && self.since_stuck >= CHUNK_SIZE;
        let is_known = self.watched >= WATCH || (has_shown && self.watched > Duration::ZERO);
        is_known.then(|| self.bytes / self.watched.as_secs_f64())
    }

    fn is_stuck(&self, now: Duration, seen: Outflow, ending: bool) -> bool {
        let patience = if ending { STUCK_AT_END } else { STUCK }.max(2 * seen.round_trip);
        seen.held > 0 && now.saturating_sub(self.moved) >= patience
    }

    fn note_stuck(&mut self) {
        (self.bytes, self.watched, self.since_stuck) = (0.0, Duration::ZERO, 0);
        self.rest = (self.rest * 2).clamp(REST_FIRST, REST_LAST);
    }

    /// Whether the promised connections would have to wait in the end for what this lane holds, and
    /// would be done with that in less than half the time. While there is time to see whether it is
    /// stuck, there is time to wait for better.
    fn is_slow(&self, seen: Outflow, outlook: Outlook) -> bool {
        let left = self.left(seen);
        let patience_s = STUCK_AT_END.as_secs_f64() + 2.0 * left / outlook.share;
        let in_time_s = patience_s.max(outlook.alone_s);
        let is_late = self.speed().is_some_and(|speed| left > speed * in_time_s);
        is_late && outlook.alone_s < STUCK.as_secs_f64() + patience_s
    }

    /// Whether the lane would deliver another chunk while the others have enough to do. If nobody
    /// knows: whether there is time to see that it is stuck, and to deliver it otherwise.
    fn pays(&self, held: u64, outlook: Outlook) -> bool {
        let (alone_s, chunk) = (outlook.alone_s, CHUNK_SIZE as f64);
        match self.speed() {
            Some(speed) => held as f64 + chunk <= speed * alone_s,
            None => alone_s >= (STUCK + STUCK_AT_END).as_secs_f64() + chunk / outlook.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBYTE: f64 = 1e6;

    fn outlook(alone_s: f64, ending: bool) -> Outlook {
        let (share, allowed, speed) = (MBYTE, f64::MAX, Speed::Starved);
        Outlook { alone_s, share, allowed, ending, last: ending, speed }
    }

    fn seen(acked: f64, held: f64) -> Outflow {
        let round_trip = Duration::from_millis(20);
        Outflow { acked: acked as u64, held: held as u64, round_trip, ..Outflow::default() }
    }

    /// A lane with work, looked at every 50 ms for a span in which so much moves per second;
    /// returns what its standing became, when.
    fn run(
        judge: &mut Judge,
        from_s: f64,
        span_s: f64,
        speed: f64,
        outlook: Outlook,
    ) -> Vec<(Standing, f64)> {
        let mut changes = Vec::new();
        let start = judge.acked as f64;
        for step in 1..=(span_s / 0.05).round() as u32 {
            let after_s = f64::from(step) * 0.05;
            let now = Duration::from_secs_f64(from_s + after_s);
            let acked = start + speed * after_s;
            let standing = judge.look(now, seen(acked, MBYTE), outlook);
            changes.extend(standing.map(|standing| (standing, from_s + after_s)));
        }
        changes
    }

    fn begun() -> Judge {
        let mut judge = Judge::spare();
        assert!(judge.begin());
        judge
    }

    #[test]
    fn what_is_stuck_is_raised_and_the_lane_rests_for_a_second_at_most() {
        let mut judge = begun();
        let mut now_s = 0.0;
        for rest_s in [0.5, 1.0, 1.0, 1.0] {
            let changes = run(&mut judge, now_s, 2.2, 0.0, outlook(1e9, false));
            assert_eq!(changes.len(), 1);
            assert_eq!(changes[0].0, Standing::Promised);
            assert!((changes[0].1 - now_s - 2.0).abs() < 0.11, "{changes:?} from {now_s}");
            assert!(!judge.open);
            judge.busy = false;
            let empty = seen(judge.acked as f64, 0.0);
            let done = Duration::from_secs_f64(now_s + 2.25);
            assert_eq!(judge.look(done, empty, outlook(1e9, false)), Some(Standing::Resting));
            let early = done + Duration::from_secs_f64(rest_s - 0.01);
            judge.look(early, empty, outlook(1e9, false));
            assert!(!judge.open, "it rests for {rest_s} s");
            let rested = done + Duration::from_secs_f64(rest_s);
            judge.look(rested, empty, outlook(1e9, false));
            assert!(judge.open, "it rests for no more than {rest_s} s");
            assert!(judge.begin());
            now_s = rested.as_secs_f64();
        }
        run(&mut judge, now_s, 2.0, MBYTE, outlook(1e9, false));
        let changes = run(&mut judge, now_s + 2.0, 2.2, 0.0, outlook(1e9, false));
        assert_eq!(changes.len(), 1);
        assert_eq!(judge.rest, REST_FIRST, "what moved shows that the lane is worth another try");
    }

    #[test]
    fn a_new_pace_ends_the_rest_of_a_lane_that_was_stuck() {
        let mut judge = begun();
        assert_eq!(run(&mut judge, 0.0, 2.2, 0.0, outlook(1e9, false)).len(), 1);
        judge.busy = false;
        let empty = seen(judge.acked as f64, 0.0);
        let at = |seconds| Duration::from_secs_f64(seconds);
        judge.look(at(2.25), empty, outlook(1e9, false));
        judge.look(at(2.3), empty, outlook(1e9, false));
        assert!(!judge.open, "it rests until 2.75 s");
        judge.take_news(at(2.35));
        judge.look(at(2.35), empty, outlook(1e9, false));
        assert!(judge.open);
        // One that was raised goes back at once where its share is slow.
        let slow = Outlook { share: MBYTE / 10.0, ..outlook(1e9, false) };
        let mut judge = begun();
        assert_eq!(run(&mut judge, 0.0, 2.05, 0.0, slow).len(), 1);
        assert_eq!(run(&mut judge, 2.05, 0.2, MBYTE, slow), []);
        judge.take_news(at(2.3));
        let changes = run(&mut judge, 2.25, 0.05, MBYTE, slow);
        assert_eq!(changes.first().map(|(standing, _)| *standing), Some(Standing::Lower));
    }

    #[test]
    fn at_the_end_nobody_waits_for_a_lane() {
        let mut judge = begun();
        run(&mut judge, 0.0, 3.0, MBYTE, outlook(1e9, false));
        let changes = run(&mut judge, 3.0, 0.4, 0.0, outlook(0.0, true));
        assert_eq!(changes.len(), 1);
        assert!(changes[0].1 < 3.31, "{changes:?}");
        // One that moves, but a tenth as fast as the promised connections would.
        let mut judge = begun();
        run(&mut judge, 0.0, 3.0, MBYTE / 10.0, outlook(1e9, false));
        let changes = run(&mut judge, 3.0, 0.05, MBYTE / 10.0, outlook(0.0, true));
        assert_eq!(changes.first().map(|(standing, _)| *standing), Some(Standing::Promised));
        // One that is as fast as they are ends what it has begun.
        let mut judge = begun();
        run(&mut judge, 0.0, 3.0, MBYTE, outlook(1e9, false));
        assert_eq!(run(&mut judge, 3.0, 1.0, MBYTE, outlook(0.0, true)), []);
    }

    #[test]
    fn what_would_come_after_the_end_is_raised_as_soon_as_that_is_known() {
        // It has 2 MB, which at its share would take 2 s.
        for (speed, alone_s, raised) in [
            (MBYTE / 50.0, 5.0, true),
            (MBYTE / 2.0, 5.0, false),
            // There is time.
            (MBYTE / 50.0, 10.0, false),
        ] {
            let mut judge = begun();
            let changes = run(&mut judge, 0.0, 0.6, speed, outlook(alone_s, false));
            let standings: Vec<Standing> = changes.iter().map(|change| change.0).collect();
            assert_eq!(standings == [Standing::Promised], raised, "{changes:?}");
        }
        // Nothing is promised: what waits anyhow waits there.
        let mut judge = begun();
        let waits = Outlook { share: 0.0, ..outlook(f64::INFINITY, true) };
        assert_eq!(run(&mut judge, 0.0, 1.0, MBYTE / 50.0, waits), []);
    }

    #[test]
    fn at_the_very_end_a_slow_promise_is_lowered_once() {
        let swift = |speed| Outlook { speed: Speed::Known(speed), ..outlook(0.0, true) };
        let mut judge = Judge::promised();
        assert_eq!(run(&mut judge, 0.0, 1.0, MBYTE, swift(1.9 * MBYTE)), []);
        let changes = run(&mut judge, 1.0, 0.05, MBYTE, swift(2.1 * MBYTE));
        assert_eq!(changes.first().map(|(standing, _)| *standing), Some(Standing::Lower));
        let changes = run(&mut judge, 1.05, 2.0, 0.0, swift(2.1 * MBYTE));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].0, Standing::Promised);
        assert!(changes[0].1 < 1.5, "{changes:?}");
        // More has come to be sent.
        let mut judge = Judge::promised();
        run(&mut judge, 0.0, 0.05, MBYTE, swift(3.0 * MBYTE));
        let changes = run(&mut judge, 0.05, 0.05, MBYTE, outlook(1.0, false));
        assert_eq!(changes.first().map(|(standing, _)| *standing), Some(Standing::Promised));
    }

    #[test]
    fn a_promise_that_would_take_long_is_tried_in_the_lower_class_unless_that_is_starved() {
        let end = |share, speed| Outlook { share, speed, ..outlook(0.0, true) };
        for (share, speed, lowered) in [
            (MBYTE / 2.0, Speed::Unknown, true),
            (MBYTE * 2.0, Speed::Unknown, false),
            (MBYTE / 2.0, Speed::Starved, false),
        ] {
            let mut judge = Judge::promised();
            let changes = run(&mut judge, 0.0, 0.05, share, end(share, speed));
            assert_eq!(changes.len(), usize::from(lowered), "{share} of a share, {speed:?}");
        }
    }

    #[test]
    fn a_promise_that_was_lowered_and_is_slow_there_is_raised_and_stays() {
        let end = Outlook { share: MBYTE / 4.0, speed: Speed::Unknown, ..outlook(0.0, true) };
        let mut judge = Judge::promised();
        // Something moves in every look, but 1 MB would take 50 s.
        let changes = run(&mut judge, 0.0, 5.0, MBYTE / 50.0, end);
        let standings: Vec<Standing> = changes.iter().map(|change| change.0).collect();
        assert_eq!(standings, [Standing::Lower, Standing::Promised]);
        assert!(changes[1].1 < 1.0, "{changes:?}");
    }

    #[test]
    fn no_promise_is_lowered_or_stays_so_where_the_spare_rate_is_no_faster() {
        for (allowed, speed, lowered) in [
            (0.0, Speed::Known(3.0 * MBYTE), false),
            (1.9 * MBYTE, Speed::Known(3.0 * MBYTE), false),
            (1.9 * MBYTE, Speed::Unknown, false),
            (2.1 * MBYTE, Speed::Known(3.0 * MBYTE), true),
        ] {
            let end = Outlook { allowed, speed, ..outlook(1.0, false) };
            let end = Outlook { ending: true, last: true, ..end };
            let mut judge = Judge::promised();
            let changes = run(&mut judge, 0.0, 0.05, MBYTE, end);
            assert_eq!(changes.len(), usize::from(lowered), "{allowed} allowed, {speed:?}");
        }
        // A pause of the spare rate, whether the promise has a rate or not.
        for share in [MBYTE / 4.0, 0.0] {
            let end = Outlook { share, speed: Speed::Unknown, ..outlook(0.0, true) };
            let mut judge = Judge::promised();
            assert_eq!(run(&mut judge, 0.0, 0.05, MBYTE, end).len(), 1);
            let changes = run(&mut judge, 0.05, 1.0, MBYTE, Outlook { allowed: 0.0, ..end });
            let standings: Vec<Standing> = changes.iter().map(|change| change.0).collect();
            assert_eq!(standings, [Standing::Promised]);
        }
    }

    #[test]
    fn what_was_raised_goes_back_where_its_share_is_slow() {
        let slow = Outlook { share: MBYTE / 10.0, ..outlook(1e9, false) };
        let became = |changes: Vec<(Standing, f64)>| changes.first().map(|change| change.0);
        let mut judge = begun();
        // Stuck for 2 s, and raised until something moves.
        assert_eq!(became(run(&mut judge, 0.0, 2.05, 0.0, slow)), Some(Standing::Promised));
        assert_eq!(run(&mut judge, 2.05, 3.0, 0.0, slow), []);
        assert_eq!(became(run(&mut judge, 5.05, 0.05, MBYTE, slow)), Some(Standing::Lower));
        // Stuck again, and raised for 1 s: for what it has is much.
        assert_eq!(became(run(&mut judge, 5.1, 2.05, 0.0, slow)), Some(Standing::Promised));
        assert_eq!(run(&mut judge, 7.15, 0.75, MBYTE, slow), []);
        let paused = Outlook { allowed: 0.0, ..slow };
        assert_eq!(run(&mut judge, 7.9, 1.0, MBYTE, paused), []);
        assert_eq!(became(run(&mut judge, 8.9, 0.05, MBYTE, slow)), Some(Standing::Lower));
        // Once it moves it stays.
        assert_eq!(run(&mut judge, 8.95, 3.0, MBYTE, slow), []);
        // One whose share is as good as the path ends what it has there.
        let mut judge = begun();
        let good = Outlook { share: 3.0 * MBYTE, ..outlook(1e9, false) };
        assert_eq!(run(&mut judge, 0.0, 2.2, 0.0, good).len(), 1);
        assert_eq!(run(&mut judge, 2.2, 4.0, MBYTE, good), []);
    }

    #[test]
    fn a_lane_takes_what_it_delivers_before_the_others_would_be_done() {
        let mut judge = begun();
        run(&mut judge, 0.0, 1.0, MBYTE, outlook(1e9, false));
        // It holds 1 MB, and a chunk is 1.05 MB.
        run(&mut judge, 1.0, 0.05, MBYTE, outlook(2.2, false));
        assert!(judge.open);
        run(&mut judge, 1.05, 0.05, MBYTE, outlook(1.9, false));
        assert!(!judge.open);
        // Nobody knows what one does that has not been seen to send.
        let mut fresh = begun();
        // In 3.3 s it is stuck, and delivers the chunk at its share.
        run(&mut fresh, 0.0, 0.1, 0.0, outlook(3.4, false));
        assert!(fresh.open);
        run(&mut fresh, 0.1, 0.05, 0.0, outlook(3.2, false));
        assert!(!fresh.open);
        // Nothing is promised, and so nothing is lost.
        let waits = Outlook { share: 0.0, ..outlook(f64::INFINITY, false) };
        run(&mut fresh, 0.15, 0.05, 0.0, waits);
        assert!(fresh.open);
    }
}
