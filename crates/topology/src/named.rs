//! Networks from the literature.

use weir_units::{Rate, Time};

use crate::network::Network;

/// The adjacency of Google's inter-datacentre network as commonly used in evaluations.
const G_SCALE: [(u8, u8); 19] = [
    (1, 2),
    (1, 3),
    (2, 5),
    (3, 4),
    (3, 6),
    (4, 5),
    (4, 7),
    (4, 8),
    (5, 6),
    (6, 7),
    (6, 8),
    (7, 8),
    (7, 11),
    (8, 10),
    (9, 10),
    (9, 11),
    (10, 11),
    (10, 12),
    (11, 12),
];

/// G-scale: 12 sites named `1` to `12`, 19 links of 10 Gbit/s in each direction (38 directed links
/// named `1-2`, `2-1`, …), no delays.
///
/// The graph of S. Jain et al., "B4: Experience with a Globally-Deployed Software Defined WAN",
/// SIGCOMM 2013; the capacity is that of the Calibers evaluation (000-spec section 4.6), per
/// direction (AMB-27).
pub fn g_scale() -> Network {
    let mut builder = Network::builder();
    for site in 1..=12 {
        builder.node(&site.to_string()).expect("sites are numbered once");
    }
    for (a, b) in G_SCALE {
        builder
            .duplex(&a.to_string(), &b.to_string(), Rate::from_mbit_per_s(10_000), Time::ZERO)
            .expect("the table names each pair of sites once");
    }
    builder.build()
}

/// The links of [`six_routers`] in the order of their numbers, 1 to 8; number k + 8 leads back.
const SIX_ROUTERS: [(&str, &str); 8] = [
    ("A", "B"),
    ("B", "C"),
    ("C", "D"),
    ("D", "E"),
    ("E", "F"),
    ("F", "A"),
    ("B", "F"),
    ("C", "E"),
];

/// Six routers `A` to `F` in a ring with the chords B-F and C-E, 16 directed links of 10 Gbit/s
/// named `A-B`, …, no delays: the network of the headroom study (000-spec figure 3.6a).
///
/// A link's number in the figure is its position here, counted from 1. Numbers 4 and 6 to 8, the
/// chords and the capacity are not printed but follow from what is (AMB-10, AMB-11). The tie-break
/// of [`Network::shortest`] gives the figure's default paths: the top row A-B-C-D first.
pub fn six_routers() -> Network {
    let mut builder = Network::builder();
    for router in ["A", "B", "C", "D", "E", "F"] {
        builder.node(router).expect("routers are named once");
    }
    let back = SIX_ROUTERS.map(|(a, b)| (b, a));
    for (a, b) in SIX_ROUTERS.into_iter().chain(back) {
        builder
            .link(&format!("{a}-{b}"), a, b, Rate::from_mbit_per_s(10_000), Time::ZERO)
            .expect("the table names each pair of routers once");
    }
    builder.build()
}
