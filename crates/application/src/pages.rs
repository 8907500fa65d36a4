//! Web pages with page-load times: pages are begun at random whatever becomes of the ones before;
//! each is a root document and then objects, over a number of connections that carry one after the
//! other (HTTP/1.1 without pipelining).

use std::collections::BTreeMap;

use weir_queue::Histogram;
use weir_random::Random;
use weir_units::Time;

use crate::ApplicationOutcome;
use crate::draws::{TruncatedPareto, exponential};
use crate::sockets::{Sockets, clear_away, is_acceptor, opener_of, peer_of};

/// What a client sends to ask for a document or an object.
const REQUEST: u64 = 300;

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anatomy {
    /// Size of the root document, which names the objects.
    pub(crate) root: u64,
    pub(crate) objects: u32,
    pub(crate) sizes: TruncatedPareto,
    /// How many connections a browser opens for a page at most.
    pub(crate) connections: u32,
}

/// A page that is being loaded.
#[derive(Debug)]
struct Page {
    begun: Time,
    /// Sizes of the objects that nobody has asked for yet.
    wanting: Vec<u64>,
    /// Documents and objects asked for.
    under_way: u32,
    connections: Vec<u32>,
}

/// A document or object under way on a connection, by the client's endpoint.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    page: u64,
    size: u64,
    is_root: bool,
    asked: u64,
    received: u64,
}

/// Pages of one client, open loop.
#[derive(Debug)]
pub struct Pages {
    interval: Time,
    anatomy: Anatomy,
    random: Random,
    next: Option<Time>,
    pages: BTreeMap<u64, Page>,
    fetches: BTreeMap<u32, Fetch>,
    begun: u64,
    completed: u64,
    time: Histogram,
}

impl Pages {
    /// Pages at exponentially distributed intervals of this mean.
    pub(crate) fn new(interval: Time, anatomy: Anatomy, random: Random) -> Self {
        Self {
            interval,
            anatomy,
            random,
            next: None,
            pages: BTreeMap::new(),
            fetches: BTreeMap::new(),
            begun: 0,
            completed: 0,
            time: Histogram::new(),
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.schedule(sockets.now());
    }

    /// The next page, counted from when the last was due.
    fn schedule(&mut self, due: Time) {
        let span = Time::from_s(exponential(&mut self.random) * self.interval.as_s());
        self.next = Some(due.saturating_add(span));
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        if let Some(due) = self.next {
            self.schedule(due);
        }
        let number = self.begun;
        self.begun += 1;
        let Anatomy { root, objects, sizes, .. } = self.anatomy;
        let wanting = (0..objects).map(|_| sizes.draw(&mut self.random)).collect();
        let begun = sockets.now();
        self.pages.insert(number, Page { begun, wanting, under_way: 0, connections: Vec::new() });
        let client = self.connect(number, sockets);
        self.fetch(client, number, root, true, sockets);
    }

    fn connect(&mut self, number: u64, sockets: &mut impl Sockets) -> u32 {
        let client = sockets.open();
        if let Some(page) = self.pages.get_mut(&number) {
            page.connections.push(client);
        }
        client
    }

    fn fetch(
        &mut self,
        client: u32,
        page: u64,
        size: u64,
        is_root: bool,
        sockets: &mut impl Sockets,
    ) {
        if let Some(page) = self.pages.get_mut(&page) {
            page.under_way += 1;
        }
        self.fetches.insert(client, Fetch { page, size, is_root, asked: 0, received: 0 });
        sockets.write(client, REQUEST);
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        let client = opener_of(endpoint);
        let Some(fetch) = self.fetches.get_mut(&client) else {
            clear_away(endpoint, sockets);
            return;
        };
        if is_acceptor(endpoint) {
            if fetch.asked < REQUEST {
                fetch.asked += sockets.take(endpoint);
                if fetch.asked == REQUEST {
                    let size = fetch.size;
                    sockets.write(peer_of(client), size);
                }
            }
            return;
        }
        fetch.received += sockets.read(client);
        if fetch.received == fetch.size {
            let Fetch { page, is_root, .. } = *fetch;
            self.fetches.remove(&client);
            self.on_fetched(client, page, is_root, sockets);
        }
    }

    /// A document or object is there: asks for the next, on new connections too after the root.
    fn on_fetched(&mut self, client: u32, number: u64, is_root: bool, sockets: &mut impl Sockets) {
        let Some(page) = self.pages.get_mut(&number) else { return };
        page.under_way -= 1;
        if let Some(size) = page.wanting.pop() {
            self.fetch(client, number, size, false, sockets);
        }
        if is_root {
            for _ in 1..self.anatomy.connections {
                let size = self.pages.get_mut(&number).and_then(|page| page.wanting.pop());
                let Some(size) = size else { break };
                let another = self.connect(number, sockets);
                self.fetch(another, number, size, false, sockets);
            }
        }
        if self.pages.get(&number).is_some_and(|page| page.under_way == 0) {
            self.on_loaded(number, sockets);
        }
    }

    fn on_loaded(&mut self, number: u64, sockets: &mut impl Sockets) {
        let Some(page) = self.pages.remove(&number) else { return };
        self.completed += 1;
        self.time.record(sockets.now() - page.begun);
        page.connections.into_iter().for_each(|client| sockets.close(client));
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let time = (&self.time).into();
        ApplicationOutcome::PageLoad { begun: self.begun, completed: self.completed, time }
    }
}
