//! How many default paths each link carries.

use weir_topology::{Metric, Network, TopologyError};

/// For each link, the number of ordered pairs of nodes whose default path crosses it: N of
/// 000-spec equation 3.4, in which a link's share is its number over the sum of all.
///
/// # Errors
/// A pair without a path.
pub fn default_paths(network: &Network) -> Result<Vec<usize>, TopologyError> {
    let mut pairs = vec![0; network.links().len()];
    for source in network.nodes() {
        for destination in network.nodes().filter(|node| *node != source) {
            let path = network.shortest(source, destination, Metric::Hops)?;
            for link in path.links() {
                pairs[link.index()] += 1;
            }
        }
    }
    Ok(pairs)
}
