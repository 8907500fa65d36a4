//! The JSON form of a network, which the service, scenario files and snapshots share.

use serde::{Deserialize, Serialize};
use weir_units::{Rate, Time};

use crate::network::{Network, TopologyError};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    nodes: Vec<String>,
    links: Vec<LinkEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    name: String,
    from: String,
    to: String,
    capacity_bps: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    delay_ns: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Network {
    /// Reads `{"nodes": ["a", …], "links": [LINK, …]}`, a LINK being
    /// `{"name", "from", "to", "capacity_bps", "delay_ns"}`
    /// with directed links; `delay_ns` may be left out.
    ///
    /// # Errors
    /// [`TopologyError::Json`] with the place, or what the builder refuses.
    pub fn from_json(text: &str) -> Result<Self, TopologyError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let document: Document =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let (place, reason) = (error.path().to_string(), error.inner().to_string());
                TopologyError::Json { place, reason }
            })?;
        reader.end().map_err(|error| TopologyError::Json {
            place: "after the network".to_owned(),
            reason: error.to_string(),
        })?;
        let mut builder = Self::builder();
        for node in &document.nodes {
            builder.node(node)?;
        }
        for link in &document.links {
            let capacity = Rate::from_bit_per_s(link.capacity_bps);
            let delay = Time::from_ns(link.delay_ns);
            builder.link(&link.name, &link.from, &link.to, capacity, delay)?;
        }
        Ok(builder.build())
    }

    /// The JSON form of this network; [`Network::from_json`] gives the same network back.
    pub fn to_json(&self) -> String {
        let link_entry = |id| {
            let link = self.link(id);
            LinkEntry {
                name: link.name.clone(),
                from: self.node_name(link.from).to_owned(),
                to: self.node_name(link.to).to_owned(),
                capacity_bps: link.capacity.as_bit_per_s(),
                delay_ns: link.delay.as_ns(),
            }
        };
        let links = self.links().map(link_entry).collect();
        let document = Document { nodes: self.nodes.clone(), links };
        serde_json::to_string(&document).expect("texts and integers always have a JSON form")
    }
}
