//! From the links of a configuration to what carries their packets.

use weir_link::{DirectionConfig, LinkError, Medium, Stations, Subnet};
use weir_queue::Random;
use weir_topology::Edge;
use weir_units::{Bytes, Time};

use crate::PacketError;
use crate::arena::Handle;
use crate::config::{Config, LinkConfig, MediumConfig};
use crate::fabric::{Carrier, Direction};
use crate::names::Names;

/// The MTU that IPv4 asks for at least (RFC 791) and the longest packet that it can describe.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;
const WAYS: [&str; 2] = ["forward", "backward"];

/// Everything that the links of a configuration are made into.
pub(crate) struct Media {
    pub(crate) carriers: Vec<Carrier>,
    /// The two directions of every link, forward first.
    pub(crate) directions: Vec<Direction>,
    pub(crate) far_ends: Vec<usize>,
    /// The links as routing sees them.
    pub(crate) edges: Vec<Edge>,
}

impl Media {
    /// Every medium, idle: one for each direction of a wired link, then one for each channel, then
    /// the subnet of the credit-based links if there are any.
    pub(crate) fn new(config: &Config, nodes: &Names) -> Result<Self, PacketError> {
        let mut builder = Builder::new(config)?;
        for link in &config.links {
            builder.link(link, nodes)?;
        }
        builder.finish()
    }
}

struct Builder {
    seed: u64,
    wired: Vec<Medium<Handle>>,
    channels: Vec<Stations<Handle>>,
    subnet: Subnet<Handle>,
    /// Directions, with numbers of media that begin anew for each kind.
    directions: Vec<(Kind, Direction)>,
    edges: Vec<Edge>,
}

/// Which media a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Wired,
    Channel,
    Subnet,
}

impl Builder {
    fn new(config: &Config) -> Result<Self, PacketError> {
        Names::new("channel", config.channels.iter().map(|channel| channel.name.as_str()))?;
        let mut channels = Vec::new();
        for channel in &config.channels {
            let place = format!("channel {:?}", channel.name);
            let wrong = |error: LinkError| PacketError::value(place.clone(), error.to_string());
            let stations = Stations::new(&channel.name, &channel.config, config.seed);
            channels.push(stations.map_err(wrong)?);
        }
        Ok(Self {
            seed: config.seed,
            wired: Vec::new(),
            channels,
            subnet: Subnet::default(),
            directions: Vec::new(),
            edges: Vec::new(),
        })
    }

    fn link(&mut self, link: &LinkConfig, nodes: &Names) -> Result<(), PacketError> {
        let place = format!("link {:?}", link.name);
        if !MTU_RANGE.contains(&link.mtu_bytes) {
            let reason = format!("mtu_bytes = {}: 68 to 65535 is allowed", link.mtu_bytes);
            return Err(PacketError::value(place, reason));
        }
        let ends = [nodes.node(&place, &link.ends[0])?, nodes.node(&place, &link.ends[1])?];
        if ends[0] == ends[1] {
            return Err(PacketError::value(place, "both ends are the same node"));
        }
        let configs = [(&link.forward, ends[0], ends[1]), (&link.backward, ends[1], ends[0])];
        for (way, (config, from, to)) in WAYS.into_iter().zip(configs) {
            let (kind, medium, port) = self.place(link, way, config, (from, to))?;
            let rate = config.rate();
            self.directions.push((kind, Direction { from, to, rate, medium, port }));
            let delay = Time::from_ns(config.delay_ns);
            self.edges.push(Edge { from, to, delay });
        }
        Ok(())
    }

    /// Puts one direction of a link on its medium; which that is, and the port there.
    fn place(
        &mut self,
        link: &LinkConfig,
        way: &str,
        config: &DirectionConfig,
        ends: (usize, usize),
    ) -> Result<(Kind, usize, usize), PacketError> {
        let seed = self.seed;
        let mtu = Bytes::new(link.mtu_bytes.into());
        let random = |source: &str| Random::of_source(seed, &[&link.name, way, source]);
        let wrong = |error: LinkError| {
            PacketError::value(format!("link {:?} {way}", link.name), error.to_string())
        };
        match &link.medium {
            MediumConfig::Wired => {
                let pipe = config.build(mtu, random).map_err(wrong)?;
                self.wired.push(Medium::Wired(pipe));
                Ok((Kind::Wired, self.wired.len() - 1, 0))
            }
            MediumConfig::Wlan { channel } => {
                let found = self.channels.iter().position(|known| known.name() == channel);
                let Some(number) = found else {
                    let reason = format!("there is no channel {channel:?}");
                    return Err(PacketError::value(format!("link {:?}", link.name), reason));
                };
                let station = &link.ends[usize::from(way == WAYS[1])];
                let stations = &mut self.channels[number];
                let port = stations.add(station, (&link.name, way), config, mtu).map_err(wrong)?;
                Ok((Kind::Channel, number, port))
            }
            MediumConfig::Credits(credits) => {
                let added = self.subnet.add_port(ends, config, credits, mtu, random);
                Ok((Kind::Subnet, 0, added.map_err(wrong)?))
            }
        }
    }

    fn finish(self) -> Result<Media, PacketError> {
        if let Some(unused) = self.channels.iter().find(|channel| channel.is_empty()) {
            let reason = "it has no stations, for no link uses it";
            return Err(PacketError::value(format!("channel {:?}", unused.name()), reason));
        }
        let first_channel = self.wired.len();
        let subnet = first_channel + self.channels.len();
        let has_subnet = self.directions.iter().any(|(kind, _)| *kind == Kind::Subnet);
        let built = |stations: Stations<Handle>| Box::new(stations.into_channel());
        let channels = self.channels.into_iter().map(|found| Medium::Shared(built(found)));
        let subnets = has_subnet.then_some(Medium::Shared(Box::new(self.subnet)));
        let media: Vec<_> = self.wired.into_iter().chain(channels).chain(subnets).collect();
        let number = |(kind, direction): (Kind, Direction)| {
            let first = match kind {
                Kind::Wired => 0,
                Kind::Channel => first_channel,
                Kind::Subnet => subnet,
            };
            Direction { medium: first + direction.medium, ..direction }
        };
        let directions: Vec<Direction> = self.directions.into_iter().map(number).collect();
        let mut ports: Vec<Vec<usize>> = vec![Vec::new(); media.len()];
        for direction in &directions {
            // Ports of a medium are numbered in the order of directions.
            ports[direction.medium].push(direction.to);
        }
        let mut far_ends = Vec::with_capacity(directions.len());
        let mut carriers = Vec::with_capacity(media.len());
        for (medium, ports) in media.into_iter().zip(ports) {
            carriers.push(Carrier { medium, first_end: far_ends.len() });
            far_ends.extend(ports);
        }
        Ok(Media { carriers, directions, far_ends, edges: self.edges })
    }
}
