//! A baseline as the scheduler of a simulation.

use std::collections::HashMap;

use weir_schedule::calendar::{Booking, Instruction, Planner};
use weir_topology::NodeId;
use weir_units::Time;

use crate::{Flow, Rates, RouteId, Routes, Scheduler};

/// A planner whose paths between two nodes are the routes between them, in the order added.
pub struct Planned<'a> {
    planner: Box<dyn Planner + 'a>,
    routes: &'a Routes,
    by_ends: HashMap<(NodeId, NodeId), Vec<RouteId>>,
    /// The routes that each flow may take, while it is under way.
    choices: HashMap<usize, (NodeId, NodeId)>,
}

impl<'a> Planned<'a> {
    /// The planner, for flows on `routes`.
    pub fn new(planner: Box<dyn Planner + 'a>, routes: &'a Routes) -> Self {
        let mut by_ends: HashMap<_, Vec<RouteId>> = HashMap::new();
        for route in routes.ids() {
            by_ends.entry(routes.nodes(route)).or_default().push(route);
        }
        Self { planner, routes, by_ends, choices: HashMap::new() }
    }

    fn tell(&mut self, now: Time, rates: &mut Rates) {
        for instruction in self.planner.tell(now) {
            match instruction {
                Instruction::Send { number, path, rate } => {
                    let choice = self.choices.get(&number).and_then(|ends| self.by_ends.get(ends));
                    if let Some(route) = choice.and_then(|routes| routes.get(path)) {
                        rates.set_on(number, *route, rate);
                    }
                }
                Instruction::GiveUp { number } => {
                    self.choices.remove(&number);
                    rates.refuse(number);
                }
            }
        }
    }
}

impl Scheduler for Planned<'_> {
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates) {
        let (source, destination) = self.routes.nodes(flow.route);
        let booking = Booking {
            number,
            source,
            destination,
            start: flow.start,
            size: flow.size,
            deadline: flow.deadline,
            rate_max: flow.limit,
        };
        match self.planner.submit(now, booking) {
            Ok(true) => {
                self.choices.insert(number, (source, destination));
            }
            Ok(false) => rates.refuse(number),
            Err(error) => rates.fail(error.into()),
        }
        self.tell(now, rates);
    }

    fn end(&mut self, now: Time, number: usize, rates: &mut Rates) {
        self.choices.remove(&number);
        self.planner.complete(now, number);
        self.tell(now, rates);
    }

    fn next_wake(&self) -> Option<Time> {
        self.planner.next_step()
    }

    fn wake(&mut self, now: Time, rates: &mut Rates) {
        self.tell(now, rates);
    }
}
