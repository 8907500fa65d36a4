//! Networks, routes and flows as text, one item on each line; the form that benchmarks share with
//! their peers.
//!
//! ```text
//! # from this sign to the end of the line is comment; empty lines are skipped
//! link FROM TO CAPACITY_BPS           links are numbered from 0, nodes are made as they are named
//! route LINK LINK ...                 routes are numbered from 0
//! flow AT_NS ROUTE SIZE_BYTES [weight=W] [priority=P] [limit_bps=R] [start_ns=T] [deadline_ns=T]
//! ```

use std::fmt::Write as _;
use std::str::FromStr;

use weir_topology::{LinkId, Network, NetworkBuilder, Path};
use weir_units::{Bytes, Rate, Time};

use crate::{Flow, FluidError, RouteId, Routes};

/// What a text describes.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The links.
    pub network: Network,
    /// The routes.
    pub routes: Routes,
    /// The flows, in the order of the text.
    pub flows: Vec<Flow>,
}

impl Trace {
    /// Reads the text form.
    ///
    /// # Errors
    /// [`FluidError::Parameter`] with the number of the line.
    pub fn parse(text: &str) -> Result<Self, FluidError> {
        let mut builder = Network::builder();
        let mut lines = Lines::of(text);
        while let Some((line, words)) = lines.next_of("link") {
            read_link(&mut builder, &words).map_err(|reason| line.wrong(reason))?;
        }
        let network = builder.build();
        let links: Vec<LinkId> = network.links().collect();
        let mut routes = Routes::new();
        while let Some((line, words)) = lines.next_of("route") {
            let path = read_path(&network, &links, &words).map_err(|reason| line.wrong(reason))?;
            routes.add(&network, &path).map_err(|error| line.wrong(error.to_string()))?;
        }
        let mut flows = Vec::new();
        while let Some((line, words)) = lines.next_of("flow") {
            let flow = read_flow(&words).map_err(|reason| line.wrong(reason))?;
            flow.check(flows.len(), &routes).map_err(|error| line.wrong(error.to_string()))?;
            flows.push(flow);
        }
        match lines.rest() {
            None => Ok(Self { network, routes, flows }),
            Some((line, text)) => {
                Err(line
                    .wrong(format!("{text:?} is not a link, a route or a flow, or out of order")))
            }
        }
    }

    /// The text form; [`Trace::parse`] gives the same back, up to the names of links.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for id in self.network.links() {
            let link = self.network.link(id);
            let (from, to) = (self.network.node_name(link.from), self.network.node_name(link.to));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "link {from} {to} {}", link.capacity.as_bit_per_s());
        }
        for route in 0..self.routes.len() as u32 {
            let links: Vec<String> = self.routes.of(route).iter().map(u32::to_string).collect();
            let _ = writeln!(text, "route {}", links.join(" "));
        }
        for flow in &self.flows {
            write_flow(&mut text, flow);
        }
        text
    }
}

fn write_flow(text: &mut String, flow: &Flow) {
    let (at, route, size) = (flow.at.as_ns(), flow.route.0, flow.size.count());
    let _ = write!(text, "flow {at} {route} {size}");
    if flow.weight != 1 {
        let _ = write!(text, " weight={}", flow.weight);
    }
    if flow.priority != 0 {
        let _ = write!(text, " priority={}", flow.priority);
    }
    if flow.limit != Rate::MAX {
        let _ = write!(text, " limit_bps={}", flow.limit.as_bit_per_s());
    }
    if flow.start != flow.at {
        let _ = write!(text, " start_ns={}", flow.start.as_ns());
    }
    if flow.has_deadline() {
        let _ = write!(text, " deadline_ns={}", flow.deadline.as_ns());
    }
    text.push('\n');
}

/// A line, by its number from 1.
#[derive(Clone, Copy)]
struct Line(usize);

impl Line {
    fn wrong(self, reason: String) -> FluidError {
        FluidError::Parameter { place: format!("line {}", self.0), reason }
    }
}

/// The lines that say something.
struct Lines<'a> {
    lines: std::iter::Peekable<Box<dyn Iterator<Item = (Line, &'a str)> + 'a>>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let said = |text: &'a str| text.split('#').next().unwrap_or_default().trim();
        let lines = text.lines().enumerate().map(move |(at, text)| (Line(at + 1), said(text)));
        let lines = lines.filter(|(_, text)| !text.is_empty());
        let lines: Box<dyn Iterator<Item = (Line, &'a str)> + 'a> = Box::new(lines);
        Self { lines: lines.peekable() }
    }

    /// The words after the first of the next line, if the first is `kind`.
    fn next_of(&mut self, kind: &str) -> Option<(Line, Vec<&'a str>)> {
        let (line, text) =
            self.lines.next_if(|(_, text)| text.split_whitespace().next() == Some(kind))?;
        Some((line, text.split_whitespace().skip(1).collect()))
    }

    fn rest(&mut self) -> Option<(Line, &'a str)> {
        self.lines.next()
    }
}

fn number<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is not a {what}"))
}

fn read_link(builder: &mut NetworkBuilder, words: &[&str]) -> Result<(), String> {
    let [from, to, capacity] = words else {
        return Err("a link has FROM, TO and CAPACITY_BPS".to_owned());
    };
    let capacity = Rate::from_bit_per_s(number(capacity, "capacity in bit/s")?);
    for node in [from, to] {
        // A node that is there already is what is wanted; an empty word cannot come here.
        let _ = builder.node(node);
    }
    let name = format!("{from}-{to}");
    let named = builder.link(&name, from, to, capacity, Time::ZERO);
    named.map(|_| ()).map_err(|error| error.to_string())
}

fn read_path(network: &Network, all: &[LinkId], words: &[&str]) -> Result<Path, String> {
    let mut links = Vec::with_capacity(words.len());
    for word in words {
        let at: usize = number(word, "number of a link")?;
        let link = all.get(at).ok_or_else(|| format!("link {at} of {} links", all.len()))?;
        links.push(*link);
    }
    Path::new(network, links).map_err(|error| error.to_string())
}

fn read_flow(words: &[&str]) -> Result<Flow, String> {
    let [at, route, size, options @ ..] = words else {
        return Err("a flow has AT_NS, ROUTE and SIZE_BYTES".to_owned());
    };
    let at = Time::from_ns(number(at, "time in nanoseconds")?);
    let route = RouteId(number(route, "number of a route")?);
    let mut flow = Flow::new(at, route, Bytes::new(number(size, "size in bytes")?));
    for option in options {
        match option.split_once('=') {
            Some(("weight", value)) => flow.weight = number(value, "weight")?,
            Some(("priority", value)) => flow.priority = number(value, "priority")?,
            Some(("limit_bps", value)) => {
                flow.limit = Rate::from_bit_per_s(number(value, "rate in bit/s")?);
            }
            Some(("start_ns", value)) => {
                flow.start = Time::from_ns(number(value, "time in nanoseconds")?);
            }
            Some(("deadline_ns", value)) => {
                flow.deadline = Time::from_ns(number(value, "time in nanoseconds")?);
            }
            _ => return Err(format!("{option:?} is not an option of a flow")),
        }
    }
    Ok(flow)
}
