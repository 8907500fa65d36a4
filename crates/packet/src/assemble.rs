//! Assembles a simulation that is about to start from its configuration.

use std::sync::Arc;

use weir_application::{
    Application, ApplicationConfig, ApplicationError, DatagramConfig, RATE_MAX,
};
use weir_queue::{Dscp, Ecn, Random};
use weir_tcp::congestion::AlgorithmError;
use weir_tcp::udt::{self, Udt};
use weir_topology::NextHops;
use weir_units::{Rate, Time};

use crate::PacketError;
use crate::config::{Config, endpoint};
use crate::counts::Counts;
use crate::echo::Echoes;
use crate::endpoint::Setup;
use crate::fabric::Fabric;
use crate::flow::{Flow, Generator};
use crate::media::Media;
use crate::names::Names;
use crate::probe::Probe;
use crate::schedule::OBJECTS_MAX;
use crate::simulation::Simulation;
use crate::traffic::{EctConfig, GeneratorConfig, TrafficConfig};

impl Simulation {
    /// Everything in place, nothing sent yet.
    ///
    /// # Errors
    /// [`PacketError::Value`], which names the place.
    pub fn new(config: &Config) -> Result<Self, PacketError> {
        let nodes = Names::new("node", config.nodes.iter().map(|node| node.name.as_str()))?;
        Names::new("link", config.links.iter().map(|link| link.name.as_str()))?;
        Names::new("traffic", config.traffic.iter().map(|flow| flow.name.as_str()))?;
        if config.warmup_ns >= config.duration_ns {
            let reason = "leaves nothing of duration_ns to be measured";
            return Err(PacketError::value(format!("warmup_ns = {}", config.warmup_ns), reason));
        }
        if config.sample_ns == 0 {
            return Err(PacketError::value("sample_ns = 0", "samples need some time between them"));
        }
        let Media { carriers, directions, far_ends, edges } = Media::new(config, &nodes)?;
        let forwards: Vec<bool> = config.nodes.iter().map(|node| node.forwards).collect();
        let routes = NextHops::new(&forwards, &edges);
        let mut flows = Vec::with_capacity(config.traffic.len());
        let builder = Builder { config, nodes: &nodes, routes: &routes };
        for (number, traffic) in config.traffic.iter().enumerate() {
            let mut flow = builder.flow(traffic, number)?;
            share_config(&mut flow, flows.last());
            flows.push(flow);
        }
        let objects = carriers.len() + flows.len() + 1;
        if objects > OBJECTS_MAX {
            let reason = format!("{objects} links, endpoints and flows; at most {OBJECTS_MAX}");
            return Err(PacketError::value("simulation", reason));
        }
        let probe = Probe::new(config, directions.len());
        let fabric = Fabric::new(directions, carriers, far_ends, routes, flows.len());
        Ok(Self::start(config, fabric, flows, probe))
    }
}

/// Traffics whose connections are alike, as neighbours mostly are, have one configuration.
fn share_config(flow: &mut Flow, before: Option<&Flow>) {
    let before = before.and_then(|before| before.setup.as_ref());
    if let (Some(setup), Some(before)) = (&mut flow.setup, before)
        && setup.config == before.config
    {
        setup.config = Arc::clone(&before.config);
    }
}

/// What the flows of a configuration are made with.
struct Builder<'a> {
    config: &'a Config,
    nodes: &'a Names,
    routes: &'a NextHops,
}

impl Builder<'_> {
    fn flow(&self, traffic: &TrafficConfig, number: usize) -> Result<Flow, PacketError> {
        let place = format!("traffic {:?}", traffic.name);
        let wrong = |reason: String| Err(PacketError::value(place.clone(), reason));
        let (from, to) =
            (self.nodes.node(&place, &traffic.from)?, self.nodes.node(&place, &traffic.to)?);
        if from == to {
            return wrong(format!("it comes from where it goes, {:?}", traffic.to));
        }
        let start = Time::from_ns(traffic.start_ns);
        let stop = traffic.stop_ns.map_or(Time::MAX, Time::from_ns);
        if stop <= start {
            return wrong(format!("stop_ns = {} is not after its start", stop.as_ns()));
        }
        if traffic.dscp > 63 {
            return wrong(format!("dscp = {}: 0 to 63 is allowed", traffic.dscp));
        }
        if traffic.ecn.is_some() && matches!(traffic.generator, GeneratorConfig::Connections(_)) {
            return wrong("ecn: only datagrams have it; connections decide by themselves".into());
        }
        let mtu = match (self.path_mtu(from, to), self.path_mtu(to, from)) {
            (Some(there), Some(back)) => there.min(back),
            _ => return wrong(format!("no path joins {:?} and {:?}", traffic.from, traffic.to)),
        };
        let (generator, setup) = match &traffic.generator {
            GeneratorConfig::Connections(application) => {
                let (application, setup) =
                    self.connections(traffic, application, [from, to], number as u32, mtu)?;
                (Generator::Connections(application), Some(setup))
            }
            GeneratorConfig::Datagrams(datagrams) => {
                require_fit(&place, datagrams.packet_bytes(), mtu)?;
                let source = datagrams.build(self.config.seed, traffic.draws(), start);
                (Generator::Datagrams(source.map_err(|error| refused(&place, &error))?), None)
            }
            GeneratorConfig::Udt => {
                require_fit(&place, udt::PACKET_BYTES, mtu)?;
                let random = Random::of_source(self.config.seed, &[traffic.draws(), "udt"]);
                (Generator::Udt(Box::new(Udt::new(random, start, stop))), None)
            }
        };
        Ok(Flow {
            name: traffic.name.clone(),
            kind: traffic.generator.kind(),
            from,
            to,
            start,
            stop,
            dscp: Dscp::of_octet(traffic.dscp << 2),
            ecn: match traffic.ecn {
                None => Ecn::NotEct,
                Some(EctConfig::Ect0) => Ecn::Ect0,
                Some(EctConfig::Ect1) => Ecn::Ect1,
            },
            hash: flow_hash(self.config.seed, traffic.draws(), 0),
            generator,
            setup,
            is_started: false,
            is_stopped: false,
            rtt: None,
            acked_before: Vec::new(),
            next_size: 0,
            counts: Counts::default(),
            before: Counts::default(),
            delay: None,
            echoes: echoes(&traffic.generator, start),
        })
    }

    /// The largest packet that the whole path takes; `None` without a path.
    fn path_mtu(&self, from: usize, to: usize) -> Option<u32> {
        let path = self.routes.path(from, to)?;
        // Two edges for every link, see `Media`.
        path.into_iter().map(|edge| self.config.links[edge / 2].mtu_bytes).min()
    }

    /// An application about to start, and how its connections are made.
    fn connections(
        &self,
        traffic: &TrafficConfig,
        config: &ApplicationConfig,
        [from, to]: [usize; 2],
        flow: u32,
        mtu: u32,
    ) -> Result<(Application, Setup), PacketError> {
        let place = format!("traffic {:?}", traffic.name);
        let built = config.build(self.config.seed, traffic.draws());
        let mut application = built.map_err(|error| refused(&place, &error))?;
        if self.config.trace
            && let Application::Web(web) = &mut application
        {
            web.keep();
        }
        let nodes = if config.opener_receives() { [to, from] } else { [from, to] };
        let setup = self.setup(traffic, config, nodes.map(|node| node as u32), flow, mtu)?;
        Ok((application, setup))
    }

    fn setup(
        &self,
        traffic: &TrafficConfig,
        application: &ApplicationConfig,
        nodes: [u32; 2],
        flow: u32,
        mtu: u32,
    ) -> Result<Setup, PacketError> {
        let tcp = application.tcp();
        let place = format!("traffic {:?}", traffic.name);
        let algorithm = tcp.congestion.parse().map_err(|error: AlgorithmError| {
            PacketError::value(place.clone(), error.to_string())
        })?;
        let pacing_rate_max = match *application {
            ApplicationConfig::Bulk { rate_bps: Some(rate), streams, .. } => {
                Some(rate_of(&place, rate / u64::from(streams.max(1)), 1)?)
            }
            _ => None,
        };
        if tcp.send_buffer_bytes == 0 || tcp.receive_buffer_bytes == 0 {
            return Err(PacketError::value(place, "a TCP buffer of 0 bytes carries nothing"));
        }
        Ok(Setup {
            seed: self.config.seed,
            draws: traffic.draws().into(),
            flow,
            nodes,
            dscp: Dscp::of_octet(traffic.dscp << 2),
            config: Arc::new(weir_tcp::Config { pacing_rate_max, ..endpoint(tcp, mtu) }),
            algorithm,
            is_answered: application.opener_receives(),
        })
    }
}

/// Where the replies to echo requests are counted; `None` for other traffic.
fn echoes(generator: &GeneratorConfig, start: Time) -> Option<Box<Echoes>> {
    match *generator {
        GeneratorConfig::Datagrams(DatagramConfig::Echo { interval_ns, .. }) => {
            Some(Box::new(Echoes::new(start, Time::from_ns(interval_ns))))
        }
        _ => None,
    }
}

fn refused(place: &str, error: &ApplicationError) -> PacketError {
    PacketError::value(place, error.to_string())
}

/// Refuses packets of a size that the path does not take.
fn require_fit(place: &str, size: u32, mtu: u32) -> Result<(), PacketError> {
    if (1..=mtu).contains(&size) {
        return Ok(());
    }
    let reason = format!("packets of {size} bytes on a path that takes 1 to {mtu}");
    Err(PacketError::value(place, reason))
}

fn rate_of(place: &str, rate: u64, least: u64) -> Result<Rate, PacketError> {
    if (least..=RATE_MAX).contains(&rate) {
        return Ok(Rate::from_bit_per_s(rate));
    }
    let reason = format!("rate_bps = {rate}: {least} to {RATE_MAX} is allowed");
    Err(PacketError::value(place, reason))
}

/// A hash of what would be addresses, protocol and ports of connection `number` of a traffic.
fn flow_hash(seed: u64, name: &str, number: u64) -> u32 {
    Random::of_source(seed, &[name, "ports", &number.to_string()]).up_to(u32::MAX.into()) as u32
}
