//! Assembles a simulation that is about to start from its configuration.

use std::sync::Arc;

use weir_aggregate::frame::FLOWS_MAX;
use weir_aggregate::turns::WEIGHT_MAX;
use weir_application::{
    Application, ApplicationConfig, ApplicationError, DatagramConfig, RATE_MAX, TcpConfig,
};
use weir_queue::{Dscp, Ecn, Random};
use weir_tcp::Nagle;
use weir_tcp::congestion::{Algorithm, AlgorithmError, Turn};
use weir_tcp::udt::{self, Udt};
use weir_topology::NextHops;
use weir_units::{Rate, Time};

use crate::PacketError;
use crate::config::{Config, endpoint};
use crate::counts::Counts;
use crate::echo::Echoes;
use crate::endpoint::{Setup, Through};
use crate::fabric::Fabric;
use crate::flow::{Flow, Generator};
use crate::media::Media;
use crate::names::Names;
use crate::probe::Probe;
use crate::relay::Relay;
use crate::schedule::OBJECTS_MAX;
use crate::simulation::Simulation;
use crate::traffic::{EctConfig, GeneratorConfig, LinkedAck, RelayConfig, TrafficConfig};

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
        let build = if config.spread { NextHops::spread } else { NextHops::new };
        let routes = build(&forwards, &edges);
        let mut flows = Vec::with_capacity(config.traffic.len());
        let builder = Builder { config, nodes: &nodes, routes: &routes };
        builder.refuse_crowds()?;
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
        let (start, stop) = span_of(traffic);
        if stop <= start {
            return wrong(format!("stop_ns = {} is not after its start", stop.as_ns()));
        }
        if traffic.dscp > 63 {
            return wrong(format!("dscp = {}: 0 to 63 is allowed", traffic.dscp));
        }
        if traffic.ecn.is_some() && matches!(traffic.generator, GeneratorConfig::Connections(_)) {
            return wrong("ecn: only datagrams have it; connections decide by themselves".into());
        }
        let (generator, setup) = self.generator(traffic, [from, to], number as u32)?;
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

    /// What generates a traffic's packets, and how its connections are made.
    fn generator(
        &self,
        traffic: &TrafficConfig,
        [from, to]: [usize; 2],
        number: u32,
    ) -> Result<(Generator, Option<Setup>), PacketError> {
        let place = format!("traffic {:?}", traffic.name);
        let through = self.through(traffic, &place)?;
        let mtu = match &through {
            None => self.mtu(&place, from, to)?,
            Some(Through { hosts: [join, split], .. }) => {
                let near = self.mtu(&place, from, *join as usize)?;
                near.min(self.mtu(&place, *split as usize, to)?)
            }
        };
        Ok(match &traffic.generator {
            GeneratorConfig::Connections(application) => {
                let (application, setup) =
                    self.connections(traffic, application, [from, to], number, mtu)?;
                let through = through.map(|through| through.of(&setup));
                (Generator::Connections(application), Some(Setup { through, ..setup }))
            }
            GeneratorConfig::Datagrams(datagrams) => {
                require_fit(&place, datagrams.packet_bytes(), mtu)?;
                let source = datagrams.build(self.config.seed, traffic.draws(), span_of(traffic).0);
                (Generator::Datagrams(source.map_err(|error| refused(&place, &error))?), None)
            }
            GeneratorConfig::Relay(relay) => {
                let nodes = [from as u32, to as u32];
                let setup = self.relay(traffic, relay, nodes, number, mtu)?;
                let relay = Relay::new(relay.linked_ack);
                (Generator::Relay(Box::new(relay)), Some(setup))
            }
            GeneratorConfig::Udt => {
                require_fit(&place, udt::PACKET_BYTES, mtu)?;
                let (start, stop) = span_of(traffic);
                let random = Random::of_source(self.config.seed, &[traffic.draws(), "udt"]);
                (Generator::Udt(Box::new(Udt::new(random, start, stop))), None)
            }
        })
    }

    /// The relay that the connections of a traffic pass, if they do.
    fn through(
        &self,
        traffic: &TrafficConfig,
        place: &str,
    ) -> Result<Option<Through>, PacketError> {
        let wrong = |reason: String| Err(PacketError::value(place, reason));
        let Some(name) = &traffic.through else {
            return match traffic.weight {
                1 => Ok(None),
                weight => wrong(format!("weight = {weight}: it passes no relay (through)")),
            };
        };
        let is_greedy = matches!(
            traffic.generator,
            GeneratorConfig::Connections(ApplicationConfig::Bulk { .. })
        );
        if !is_greedy {
            return wrong("through: greedy TCP alone can pass a relay".into());
        }
        if !(1..=WEIGHT_MAX).contains(&traffic.weight) {
            return wrong(format!("weight = {}: 1 to {WEIGHT_MAX} is allowed", traffic.weight));
        }
        let relays = self.config.traffic.iter().zip(0..);
        let found =
            relays.filter(|(other, _)| other.name == *name).find_map(
                |(other, number)| match &other.generator {
                    GeneratorConfig::Relay(relay) => Some((other, relay, number)),
                    _ => None,
                },
            );
        let Some((relay, settings, number)) = found else {
            return wrong(format!("through: there is no relay {name:?}"));
        };
        let join = self.nodes.node(place, &relay.from)?;
        let split = self.nodes.node(place, &relay.to)?;
        let mtu = self.mtu(place, self.nodes.node(place, &traffic.from)?, join)?;
        Ok(Some(Through {
            relay: number,
            hosts: [join as u32, split as u32],
            weight: traffic.weight,
            config: Arc::new(of_relay(settings, endpoint(&settings.tcp, mtu))),
            is_prompt: settings.linked_ack == LinkedAck::PerFlow,
            split_config: None,
        }))
    }

    /// Refuses more connections through one relay than it has numbers for.
    fn refuse_crowds(&self) -> Result<(), PacketError> {
        for relay in &self.config.traffic {
            let passing = self.config.traffic.iter().filter(|traffic| {
                traffic.through.as_ref().is_some_and(|through| *through == relay.name)
            });
            let streams = passing.map(|traffic| match traffic.generator {
                GeneratorConfig::Connections(ApplicationConfig::Bulk { streams, .. }) => {
                    u64::from(streams)
                }
                _ => 0,
            });
            let streams: u64 = streams.sum();
            if streams > FLOWS_MAX as u64 {
                let reason = format!("{streams} connections pass it; at most {FLOWS_MAX}");
                return Err(PacketError::value(format!("traffic {:?}", relay.name), reason));
            }
        }
        Ok(())
    }

    /// How the aggregate of a relay is made.
    fn relay(
        &self,
        traffic: &TrafficConfig,
        relay: &RelayConfig,
        nodes: [u32; 2],
        flow: u32,
        mtu: u32,
    ) -> Result<Setup, PacketError> {
        if traffic.start_ns > 0 || traffic.stop_ns.is_some() {
            let place = format!("traffic {:?}", traffic.name);
            let reason = "start_ns, stop_ns: a relay is there from the first client on, to the end";
            return Err(PacketError::value(place, reason));
        }
        let setup = self.setup(traffic, &relay.tcp, nodes, flow, mtu)?;
        let config = Arc::new(of_relay(relay, *setup.config));
        Ok(Setup { config, is_answered: true, ..setup })
    }

    /// The largest packet that the path takes in both directions.
    fn mtu(&self, place: &str, from: usize, to: usize) -> Result<u32, PacketError> {
        match (self.path_mtu(from, to), self.path_mtu(to, from)) {
            (Some(there), Some(back)) => Ok(there.min(back)),
            _ => {
                let name = |node: usize| &self.config.nodes[node].name;
                let reason = format!("no path joins {:?} and {:?}", name(from), name(to));
                Err(PacketError::value(place, reason))
            }
        }
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
        let nodes = nodes.map(|node| node as u32);
        let setup = self.setup(traffic, config.tcp(), nodes, flow, mtu)?;
        let place = format!("traffic {:?}", traffic.name);
        let pacing_rate_max = match *config {
            ApplicationConfig::Bulk { rate_bps: Some(rate), streams, .. } => {
                Some(rate_of(&place, rate / u64::from(streams.max(1)), 1)?)
            }
            _ => None,
        };
        let endpoint = weir_tcp::Config { pacing_rate_max, ..*setup.config };
        let is_answered = config.opener_receives();
        Ok((application, Setup { config: Arc::new(endpoint), is_answered, ..setup }))
    }

    fn setup(
        &self,
        traffic: &TrafficConfig,
        tcp: &TcpConfig,
        nodes: [u32; 2],
        flow: u32,
        mtu: u32,
    ) -> Result<Setup, PacketError> {
        let place = format!("traffic {:?}", traffic.name);
        let algorithm = tcp.congestion.parse().map_err(|error: AlgorithmError| {
            PacketError::value(place.clone(), error.to_string())
        })?;
        let turns = turns(&place, tcp)?;
        if tcp.send_buffer_bytes == 0 || tcp.receive_buffer_bytes == 0 {
            return Err(PacketError::value(place, "a TCP buffer of 0 bytes carries nothing"));
        }
        Ok(Setup {
            seed: self.config.seed,
            draws: traffic.draws().into(),
            flow,
            nodes,
            dscp: Dscp::of_octet(traffic.dscp << 2),
            config: Arc::new(endpoint(tcp, mtu)),
            algorithm,
            turns,
            is_answered: false,
            through: None,
        })
    }
}

/// The options of a relay's own end of a connection. `weir relay` sets TCP_NODELAY: what its split
/// end tells of servers' acknowledgements must not wait until what it told before is acknowledged.
fn of_relay(relay: &RelayConfig, config: weir_tcp::Config) -> weir_tcp::Config {
    match relay.linked_ack {
        LinkedAck::PerFlow => weir_tcp::Config { nagle: Nagle::Off, ..config },
        LinkedAck::None | LinkedAck::Literal | LinkedAck::Strict => config,
    }
}

/// When a traffic begins, and when it ends.
fn span_of(traffic: &TrafficConfig) -> (Time, Time) {
    let stop = traffic.stop_ns.map_or(Time::MAX, Time::from_ns);
    (Time::from_ns(traffic.start_ns), stop)
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

/// The controls that take the place of the first.
fn turns(place: &str, tcp: &TcpConfig) -> Result<Arc<[Turn]>, PacketError> {
    if !tcp.turns.is_sorted_by_key(|(at, ..)| at) {
        return Err(PacketError::value(place, "turns of a control that are not in order"));
    }
    let turn = |(at, control, rate): &(u64, String, Option<u64>)| {
        let algorithm: Algorithm = control
            .parse()
            .map_err(|error: AlgorithmError| PacketError::value(place, error.to_string()))?;
        let rate = rate.map(|rate| rate_of(place, rate, 1)).transpose()?;
        Ok(Turn { after: Time::from_ns(*at), algorithm, rate })
    };
    tcp.turns.iter().map(turn).collect()
}

/// A hash of what would be addresses, protocol and ports of connection `number` of a traffic.
fn flow_hash(seed: u64, name: &str, number: u64) -> u32 {
    Random::of_source(seed, &[name, "ports", &number.to_string()]).up_to(u32::MAX.into()) as u32
}
