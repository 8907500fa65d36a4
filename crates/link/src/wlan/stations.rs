//! A channel's stations, found link by link: how every world builds a channel.

use std::collections::HashMap;

use weir_queue::{Packet, Random};
use weir_units::Bytes;

use super::channel::{Channel, ChannelConfig};
use crate::{DirectionConfig, LinkError};

/// A channel while its stations are found.
///
/// What is drawn follows from the seed and from names alone, so that the stations of a scenario
/// draw the same in every world.
pub struct Stations<P> {
    name: String,
    seed: u64,
    channel: Channel<P>,
    /// The radio of each station.
    radios: HashMap<String, usize>,
}

impl<P: Packet + Send + 'static> Stations<P> {
    /// The channel called `name`, without stations.
    ///
    /// # Errors
    /// What [`ChannelConfig::check`] refuses.
    pub fn new(name: &str, config: &ChannelConfig, seed: u64) -> Result<Self, LinkError> {
        let channel = config.build()?;
        Ok(Self { name: name.to_owned(), seed, channel, radios: HashMap::new() })
    }

    /// What the channel is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether no link uses the channel.
    pub fn is_empty(&self) -> bool {
        self.radios.is_empty()
    }

    /// The direction `way` of a link, by which `station` sends; returns its port. Ports are
    /// numbered from 0 in the order of these calls.
    ///
    /// # Errors
    /// What [`Channel::add_port`] refuses.
    pub fn add(
        &mut self,
        station: &str,
        (link, way): (&str, &str),
        config: &DirectionConfig,
        mtu: Bytes,
    ) -> Result<usize, LinkError> {
        let seed = self.seed;
        let radio = match self.radios.get(station) {
            Some(&known) => known,
            None => {
                let source = ["channel", &self.name, station, "backoff"];
                let radio = self.channel.add_radio(Random::of_source(seed, &source));
                self.radios.insert(station.to_owned(), radio);
                radio
            }
        };
        let random = |source: &str| Random::of_source(seed, &[link, way, source]);
        self.channel.add_port(radio, config, mtu, random)
    }

    /// The channel, idle, with these stations.
    pub fn into_channel(self) -> Channel<P> {
        self.channel
    }
}
