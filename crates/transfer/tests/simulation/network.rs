//! Connections in memory, with latency, and what goes wrong with them.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use weir_random::Random;

use crate::kernel::{MILLISECOND_NS, SECOND_NS};

/// The mover asks the kernel to give a connection up after this long without an answer.
const GIVE_UP_NS: u64 = 30 * SECOND_NS;
/// What a router held back is sent again, as ordinary traffic, after this long.
const AGAIN_NS: u64 = 300 * MILLISECOND_NS;

/// How the network behaves in a run.
#[derive(Clone, Debug)]
pub(crate) struct NetworkPlan {
    pub(crate) latency_ns: u64,
    pub(crate) jitter_ns: u64,
    pub(crate) bytes_per_s: u64,
    /// Bytes on the way or not yet read, per direction.
    pub(crate) window: usize,
    /// How often a read gets less than there is.
    pub(crate) short_reads: f64,
    /// How often one bit of what a call sends is turned.
    pub(crate) flips: f64,
    /// How often a whole control message comes twice, not at all, or after its successor.
    pub(crate) doubled: f64,
    pub(crate) lost: f64,
    pub(crate) swapped: f64,
}

#[derive(Debug)]
struct Segment {
    at_ns: u64,
    bytes: Vec<u8>,
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Flow {
    on_the_way: VecDeque<Segment>,
    arrived: VecDeque<u8>,
    unread: usize,
    /// Bytes that have come to the reader's kernel so far.
    delivered: u64,
    last_at_ns: u64,
    ended_at_ns: Option<u64>,
    /// A message that its successor overtakes.
    held: Option<Vec<u8>>,
    /// Since when what is sent is of the lower class.
    lower_since_ns: Option<u64>,
}

/// One end of a link.
#[derive(Debug)]
struct End {
    address: SocketAddrV4,
    process: usize,
    closed: bool,
    reads_no_more: bool,
    broken: Option<(u64, i32)>,
    error_told: bool,
}

#[derive(Debug)]
struct Link {
    /// `flows[side]` carries what `ends[side]` sends.
    flows: [Flow; 2],
    ends: [End; 2],
}

#[derive(Debug)]
struct Listener {
    address: SocketAddrV4,
    process: usize,
    open: bool,
    waiting: VecDeque<(u64, usize)>,
}

/// All links and listeners of a run.
pub(crate) struct Network {
    pub(crate) plan: NetworkPlan,
    links: Vec<Link>,
    listeners: Vec<Listener>,
    random: Random,
    next_port: u16,
    /// Nothing that is sent in this span arrives before its end.
    silent: Option<(u64, u64)>,
    /// Nothing of the lower class arrives in this span.
    starved: Option<(u64, u64)>,
    /// Names do not resolve in this span.
    pub(crate) nameless: Option<(u64, u64)>,
}

/// What a reader gets.
pub(crate) enum Taken {
    Bytes(usize),
    End,
    Error(i32),
    /// Nothing now; look again at this time, or when woken.
    Nothing(Option<u64>),
}

impl Flow {
    /// What is on the way at one time arrives at another one at the earliest.
    fn hold(&mut self, now_ns: u64, until_ns: u64) {
        for segment in self.on_the_way.iter_mut().filter(|segment| segment.at_ns > now_ns) {
            segment.at_ns = segment.at_ns.max(until_ns);
            self.last_at_ns = self.last_at_ns.max(until_ns);
        }
    }
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::of_source(seed, &["network"]);
        let latency_ns = [50_000, MILLISECOND_NS, 40 * MILLISECOND_NS][random.up_to(2) as usize];
        let plan = NetworkPlan {
            latency_ns,
            jitter_ns: latency_ns / 2 * random.up_to(4),
            bytes_per_s: [5_000_000, 100_000_000, 2_000_000_000][random.up_to(2) as usize],
            window: 1 << (16 + random.up_to(6)),
            short_reads: [0.0, 0.05, 0.5][random.up_to(2) as usize],
            flips: 0.0,
            doubled: 0.0,
            lost: 0.0,
            swapped: 0.0,
        };
        Self {
            plan,
            links: Vec::new(),
            listeners: Vec::new(),
            random,
            next_port: 40_000,
            silent: None,
            starved: None,
            nameless: None,
        }
    }

    pub(crate) fn free_port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    pub(crate) fn listen(&mut self, address: SocketAddrV4, process: usize) -> usize {
        self.listeners.push(Listener { address, process, open: true, waiting: VecDeque::new() });
        self.listeners.len() - 1
    }

    pub(crate) fn stop_listening(&mut self, listener: usize) {
        self.listeners[listener].open = false;
    }

    pub(crate) fn is_listening(&self, listener: usize) -> bool {
        self.listeners[listener].open
    }

    /// The listener at an address.
    pub(crate) fn find(&self, address: SocketAddrV4) -> Option<usize> {
        self.listeners.iter().position(|one| one.open && one.address == address)
    }

    pub(crate) fn is_silent(&self, now_ns: u64) -> bool {
        self.silent.is_some_and(|(from, until)| (from..until).contains(&now_ns))
    }

    pub(crate) fn resolves_not(&self, now_ns: u64) -> bool {
        self.nameless.is_some_and(|(from, until)| (from..until).contains(&now_ns))
    }

    /// A new link from `from` to a listener; it waits there to be accepted.
    pub(crate) fn connect(
        &mut self,
        now_ns: u64,
        from: SocketAddrV4,
        process: usize,
        listener: usize,
    ) -> usize {
        let end = |address, process| End {
            address,
            process,
            closed: false,
            reads_no_more: false,
            broken: None,
            error_told: false,
        };
        let (to, server) = (self.listeners[listener].address, self.listeners[listener].process);
        let ends = [end(from, process), end(to, server)];
        self.links.push(Link { flows: Default::default(), ends });
        let at_ns = now_ns + self.plan.latency_ns;
        self.listeners[listener].waiting.push_back((at_ns, self.links.len() - 1));
        self.links.len() - 1
    }

    /// A link that waits at a listener, or when to look again.
    pub(crate) fn accept(&mut self, now_ns: u64, listener: usize) -> Result<usize, Option<u64>> {
        let waiting = &mut self.listeners[listener].waiting;
        match waiting.front() {
            Some((at_ns, link)) if *at_ns <= now_ns => {
                let link = *link;
                waiting.pop_front();
                Ok(link)
            }
            front => Err(front.map(|(at_ns, _)| *at_ns)),
        }
    }

    pub(crate) fn address(&self, link: usize, side: usize) -> SocketAddrV4 {
        self.links[link].ends[side].address
    }

    /// Room for what `side` sends, or the error that it gets.
    pub(crate) fn room(&mut self, now_ns: u64, link: usize, side: usize) -> Result<usize, i32> {
        self.notice_silence(now_ns, link);
        let link = &mut self.links[link];
        if let Some((at_ns, error)) = link.ends[side].broken
            && at_ns <= now_ns
        {
            let told = std::mem::replace(&mut link.ends[side].error_told, true);
            return Err(if told { libc::EPIPE } else { error });
        }
        if link.flows[side].ended_at_ns.is_some() {
            return Err(libc::EPIPE);
        }
        // Like a kernel, no crumbs: a writer waits for a fair part of the window.
        let room = self.plan.window.saturating_sub(link.flows[side].unread);
        Ok(if room < self.plan.window / 4 { 0 } else { room })
    }

    /// Puts bytes, for which there is room, on the way.
    pub(crate) fn send(&mut self, now_ns: u64, link: usize, side: usize, bytes: &[u8]) {
        if self.links[link].ends[1 - side].closed {
            // The peer's kernel answers with a reset.
            let at_ns = now_ns + self.plan.latency_ns;
            self.links[link].ends[side].broken.get_or_insert((at_ns, libc::ECONNRESET));
            return;
        }
        let mut bytes = bytes.to_vec();
        if self.random.chance(self.plan.flips) && !bytes.is_empty() {
            let bit = self.random.up_to(bytes.len() as u64 * 8 - 1);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let mut sent = vec![bytes];
        if is_message(&sent[0]) {
            let flow = &mut self.links[link].flows[side];
            let held = flow.held.take();
            if held.is_none() && self.random.chance(self.plan.swapped) {
                flow.held = sent.pop();
            } else if self.random.chance(self.plan.lost) {
                sent.clear();
            } else if self.random.chance(self.plan.doubled) {
                sent.push(sent[0].clone());
            }
            sent.extend(held);
        }
        for bytes in sent {
            self.put(now_ns, link, side, bytes);
        }
    }

    fn put(&mut self, now_ns: u64, link: usize, side: usize, bytes: Vec<u8>) {
        let jitter = self.random.up_to(self.plan.jitter_ns);
        let time = bytes.len() as u64 * SECOND_NS / self.plan.bytes_per_s;
        let from = match self.silent {
            // What was lost is sent again once the line is back.
            Some((from, until)) if (from..until).contains(&now_ns) => until,
            _ => now_ns,
        };
        let from = from.max(self.held_until(now_ns, link, side).unwrap_or(0));
        let flow = &mut self.links[link].flows[side];
        let at_ns = (from + self.plan.latency_ns + jitter).max(flow.last_at_ns) + time;
        flow.last_at_ns = at_ns;
        flow.unread += bytes.len();
        flow.on_the_way.push_back(Segment { at_ns, bytes });
    }

    /// Takes what has arrived for `side`, at most `buffer`.
    pub(crate) fn take(
        &mut self,
        now_ns: u64,
        link: usize,
        side: usize,
        buffer: &mut [u8],
    ) -> Taken {
        let there = match self.look(now_ns, link, side) {
            Taken::Bytes(there) => there,
            other => return other,
        };
        let mut count = there.min(buffer.len());
        if count > 1 && self.random.chance(self.plan.short_reads) {
            count = 1 + self.random.up_to(count as u64 - 1) as usize;
        }
        let flow = &mut self.links[link].flows[1 - side];
        for (byte, taken) in buffer.iter_mut().zip(flow.arrived.drain(..count)) {
            *byte = taken;
        }
        flow.unread = flow.unread.saturating_sub(count);
        Taken::Bytes(count)
    }

    /// What there is to be read for `side`, left in place.
    pub(crate) fn look(&mut self, now_ns: u64, link: usize, side: usize) -> Taken {
        self.notice_silence(now_ns, link);
        let Link { flows, ends } = &mut self.links[link];
        let (flow, end) = (&mut flows[1 - side], &mut ends[side]);
        let broken = end.broken.filter(|(at_ns, _)| *at_ns <= now_ns);
        while let Some(segment) = flow.on_the_way.front()
            && segment.at_ns <= now_ns
            && broken.is_none_or(|(at_ns, _)| segment.at_ns <= at_ns)
        {
            flow.arrived.extend(&segment.bytes);
            flow.delivered += segment.bytes.len() as u64;
            flow.on_the_way.pop_front();
        }
        if end.reads_no_more {
            return Taken::End;
        }
        if !flow.arrived.is_empty() {
            return Taken::Bytes(flow.arrived.len());
        }
        if let Some((_, error)) = broken {
            let told = std::mem::replace(&mut end.error_told, true);
            return if told { Taken::End } else { Taken::Error(error) };
        }
        let next = flow.on_the_way.front().map(|segment| segment.at_ns);
        if next.is_none() && flow.ended_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            return Taken::End;
        }
        let silent_end = self.silent.map(|(from, _)| from + GIVE_UP_NS);
        let starved_end = self.starved_until_ns(link);
        let Link { flows, ends } = &self.links[link];
        let (ended_at_ns, broken) = (flows[1 - side].ended_at_ns, ends[side].broken);
        let times = [next, ended_at_ns, broken.map(|(at_ns, _)| at_ns), silent_end, starved_end];
        Taken::Nothing(times.into_iter().flatten().filter(|at_ns| *at_ns > now_ns).min())
    }

    /// Bytes that `side` has sent and the other end does not have yet.
    pub(crate) fn on_the_way(&self, link: usize, side: usize) -> u32 {
        let segments = self.links[link].flows[side].on_the_way.iter();
        segments.map(|segment| segment.bytes.len() as u32).sum()
    }

    /// Bytes that have come to the kernel of `side` so far.
    pub(crate) fn delivered(&mut self, now_ns: u64, link: usize, side: usize) -> u64 {
        let _ = self.look(now_ns, link, side);
        self.links[link].flows[1 - side].delivered
    }

    /// Ends one or both directions of `side`.
    pub(crate) fn shut_down(&mut self, now_ns: u64, link: usize, side: usize, how: i32) {
        let latency_ns = self.plan.latency_ns;
        let Link { flows, ends } = &mut self.links[link];
        if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR) {
            let flow = &mut flows[side];
            let at_ns = flow.last_at_ns.max(now_ns + latency_ns);
            flow.ended_at_ns.get_or_insert(at_ns);
        }
        if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
            ends[side].reads_no_more = true;
        }
    }

    /// The descriptor of `side` is gone. What it left unread makes its kernel send a reset.
    pub(crate) fn close(&mut self, now_ns: u64, link: usize, side: usize) {
        self.shut_down(now_ns, link, side, libc::SHUT_RDWR);
        let at_ns = now_ns + self.plan.latency_ns;
        let Link { flows, ends } = &mut self.links[link];
        ends[side].closed = true;
        if flows[1 - side].unread > 0 && !ends[1 - side].closed {
            ends[1 - side].broken.get_or_insert((at_ns, libc::ECONNRESET));
        }
    }

    /// Breaks links that are open, each with probability `share`; returns those.
    pub(crate) fn cut(&mut self, now_ns: u64, share: f64) -> Vec<usize> {
        let mut cut = Vec::new();
        for index in 0..self.links.len() {
            let open = self.links[index].ends.iter().any(|end| !end.closed);
            if open && self.random.chance(share) {
                for end in &mut self.links[index].ends {
                    end.broken.get_or_insert((now_ns, libc::ECONNRESET));
                }
                cut.push(index);
            }
        }
        cut
    }

    /// From now on nothing goes wrong.
    pub(crate) fn calm(&mut self) {
        let plan = &mut self.plan;
        (plan.flips, plan.doubled, plan.lost, plan.swapped) = (0.0, 0.0, 0.0, 0.0);
        self.starved = None;
    }

    /// What `side` sends is of the lower class from now on, or no longer: what was held back is
    /// then sent again.
    pub(crate) fn set_lower(&mut self, now_ns: u64, link: usize, side: usize, lower: bool) {
        let was_held = self.held_until(now_ns, link, side).is_some();
        let again_ns = now_ns + self.plan.latency_ns + AGAIN_NS;
        let flow = &mut self.links[link].flows[side];
        if was_held && !lower {
            let held = flow.on_the_way.iter_mut();
            held.for_each(|segment| segment.at_ns = segment.at_ns.min(again_ns));
            flow.last_at_ns = flow.last_at_ns.min(again_ns);
        }
        flow.lower_since_ns = lower.then(|| flow.lower_since_ns.unwrap_or(now_ns));
    }

    /// Routers have no room for the lower class until `until_ns`.
    pub(crate) fn starve(&mut self, now_ns: u64, until_ns: u64) {
        self.starved = Some((now_ns, until_ns));
        for flow in self.links.iter_mut().flat_map(|link| &mut link.flows) {
            if flow.lower_since_ns.is_some() {
                flow.hold(now_ns, until_ns);
            }
        }
    }

    /// When what `side` sends now is let through, if it is held back.
    fn held_until(&self, now_ns: u64, link: usize, side: usize) -> Option<u64> {
        self.links[link].flows[side].lower_since_ns?;
        self.starved.filter(|(from, until)| (*from..*until).contains(&now_ns)).map(|span| span.1)
    }

    /// When a link's ends give it up, as nothing has come through in the lower class.
    fn starved_until_ns(&self, link: usize) -> Option<u64> {
        let (from, until) = self.starved?;
        let flows = self.links[link].flows.iter();
        let since = flows.filter_map(|flow| flow.lower_since_ns).min()?.max(from);
        (until > since + GIVE_UP_NS).then_some(since + GIVE_UP_NS)
    }

    /// Nothing passes until `until_ns`.
    pub(crate) fn fall_silent(&mut self, now_ns: u64, until_ns: u64) {
        self.silent = Some((now_ns, until_ns));
        self.links
            .iter_mut()
            .flat_map(|link| &mut link.flows)
            .for_each(|flow| flow.hold(now_ns, until_ns));
    }

    /// Both kernels give up a link whose other end has been out of reach for too long.
    fn notice_silence(&mut self, now_ns: u64, link: usize) {
        if let Some((from, until)) = self.silent
            && until > from + GIVE_UP_NS
            && now_ns >= from + GIVE_UP_NS
            && now_ns < until
        {
            for end in &mut self.links[link].ends {
                end.broken.get_or_insert((from + GIVE_UP_NS, libc::ETIMEDOUT));
            }
        }
        if let Some(at_ns) = self.starved_until_ns(link)
            && (at_ns..self.starved.map_or(0, |(_, until)| until)).contains(&now_ns)
        {
            for end in &mut self.links[link].ends {
                end.broken.get_or_insert((at_ns, libc::ETIMEDOUT));
            }
        }
    }

    /// Links with an open end in `process`.
    pub(crate) fn open_links_of(&self, process: usize) -> usize {
        let own = |link: &&Link| link.ends.iter().any(|end| end.process == process && !end.closed);
        self.links.iter().filter(own).count()
    }
}

/// Whether these bytes are one whole control message.
fn is_message(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk::<4>().map(|prefix| u32::from_be_bytes(*prefix) as usize);
    length.is_some_and(|length| length > 0 && length + 4 == bytes.len())
}
