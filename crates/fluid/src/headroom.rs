//! A provider's controller as the router of the fluid world: the decision that serves elephant
//! flows, measured on any workload.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use weir_random::Random;
use weir_schedule::headroom::{Elephant, Options, Provider};
use weir_topology::{LinkId, Network, NodeId};
use weir_units::{Rate, Time};

use crate::workload::Distribution;
use crate::{
    Flow, FluidError, Outcome, Placement, RouteId, Router, Routes, Source, Study, document,
    simulate_routed,
};

/// Elephant flows under a headroom service.
#[derive(Clone, Debug)]
pub struct HeadroomStudy {
    /// The network and the flows.
    pub study: Study,
    /// The service.
    pub service: Options,
    /// What the ends of flows can do at most, in bit/s, which they announce; no limit without it.
    pub limits_bps: Option<Distribution>,
}

/// What a study found.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadroomOutcome {
    /// Every flow, and the utilisation of each link.
    pub flows: Outcome,
    /// The share of seconds at whose end a flow was on each link (000-spec equation 3.5).
    pub occupancy: Vec<f64>,
    /// The share of flows that did not take the default path.
    pub detoured: f64,
}

/// The JSON form. The study is in the form of [`Study::from_json`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    study: serde_json::Value,
    #[serde(default)]
    service: Options,
    #[serde(default)]
    limits_bps: Option<Distribution>,
}

impl HeadroomStudy {
    /// Reads `{"study": STUDY, "service": OPTIONS, "limits_bps": DISTRIBUTION}`; the last two may
    /// be left out. OPTIONS has the fields of [`Options`].
    ///
    /// # Errors
    /// [`FluidError::Parameter`] with the place, or what [`Study::from_json`] refuses.
    pub fn from_json(text: &str) -> Result<Self, FluidError> {
        let document: Document = document::read(text)?;
        let study = Study::from_json(&document.study.to_string())?;
        Ok(Self { study, service: document.service, limits_bps: document.limits_bps })
    }

    /// Runs it. Ties between paths, and limits, have generators of their own.
    ///
    /// # Errors
    /// What the workload, the service and the simulation refuse.
    pub fn run(&self) -> Result<HeadroomOutcome, FluidError> {
        let Study { network, workload, model, until } = &self.study;
        let mut routes = Routes::new();
        let drawn = workload.draw(network, &mut routes)?;
        if let Some(limits) = &self.limits_bps {
            limits.check("limits_bps")?;
        }
        let draws = Random::of_source(workload.seed, &["headroom", "limits"]);
        let mut source = Limited { source: drawn, limits: self.limits_bps.as_ref(), draws };
        let mut router = Headroom::new(network, &mut routes, self.service, workload.seed)?;
        let sharing = model.sharing();
        let flows = simulate_routed(network, &routes, sharing, &mut router, &mut source, *until)?;
        let detoured = router.detoured as f64 / flows.flows.len().max(1) as f64;
        let occupancy = flows.occupancy(&routes, Time::from_ms(1000));
        Ok(HeadroomOutcome { flows, occupancy, detoured })
    }
}

/// Flows whose ends have limits that are drawn.
struct Limited<'a, S> {
    source: S,
    limits: Option<&'a Distribution>,
    draws: Random,
}

impl<S: Source> Source for Limited<'_, S> {
    fn next_at(&self) -> Option<Time> {
        self.source.next_at()
    }

    fn take(&mut self) -> Option<Flow> {
        let flow = self.source.take()?;
        let Some(limits) = self.limits else { return Some(flow) };
        // At least one bit/s; the cast saturates.
        let limit = (limits.draw(&mut self.draws) as u64).max(1);
        Some(Flow { limit: Rate::from_bit_per_s(limit), ..flow })
    }

    fn ended(&mut self, now: Time) {
        self.source.ended(now);
    }
}

/// The [`Provider`] with its paths as routes.
#[derive(Clone, Debug)]
pub struct Headroom {
    provider: Provider,
    /// The ends of each route that flows come with.
    ends: Vec<(NodeId, NodeId)>,
    /// The routes of the provider's candidates between two ends.
    routes: HashMap<(NodeId, NodeId), Vec<RouteId>>,
    /// Flows on another path than the default one.
    detoured: u64,
}

impl Headroom {
    /// A provider for flows that come on any route that `routes` holds by now; adds the paths that
    /// it may choose instead. Draws depend on `seed`.
    ///
    /// # Errors
    /// Options that leave no path.
    pub fn new(
        network: &Network,
        routes: &mut Routes,
        options: Options,
        seed: u64,
    ) -> Result<Self, FluidError> {
        let random = Random::of_source(seed, &["headroom", "ties"]);
        let mut provider = Provider::new(Arc::new(network.clone()), options, random)?;
        let links: Vec<LinkId> = network.links().collect();
        let (mut ends, mut known) = (Vec::new(), HashMap::new());
        for id in (0..routes.len()).map(|at| RouteId(at as u32)) {
            let crossed = routes.links(id);
            let (first, last) = (crossed[0], crossed[crossed.len() - 1]);
            let source = network.link(links[first as usize]).from;
            let destination = network.link(links[last as usize]).to;
            ends.push((source, destination));
        }
        for &(source, destination) in &ends {
            if known.contains_key(&(source, destination)) {
                continue;
            }
            let candidates = provider.candidates(source, destination)?;
            let added = candidates.iter().map(|path| routes.add(network, path));
            known.insert((source, destination), added.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Self { provider, ends, routes: known, detoured: 0 })
    }
}

impl Router for Headroom {
    fn place(&mut self, number: usize, flow: &Flow) -> Result<Placement, FluidError> {
        let (place, routes) = (flow.route.index(), self.ends.len());
        let ends = self.ends.get(place).copied();
        let ends = ends.ok_or(FluidError::UnknownRoute { flow: number, route: place, routes })?;
        let (ingress, egress) = ends;
        let elephant = Elephant { ingress, egress, rate_max: flow.limit, size: Some(flow.size) };
        let choice = self.provider.start(number as u64, elephant)?;
        self.detoured += u64::from(choice.index > 0);
        let start = flow.at.saturating_add(choice.setup);
        Ok(Placement { route: self.routes[&ends][choice.index], start })
    }

    fn ended(&mut self, _: Time, number: usize) -> Result<(), FluidError> {
        Ok(self.provider.end(number as u64)?)
    }
}
