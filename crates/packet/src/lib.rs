//! Packet simulator: every packet of TCP and UDP over links and queues, event by event.
//!
//! The types to start with are [`Config`], read from JSON, and [`Simulation`], which runs it and
//! gives an [`Outcome`]. Time is whole nanoseconds; the same configuration gives the same bytes.
//!
//! The life of a packet: an application writes, its endpoint (`weir-tcp`, or a UDP source) gives a
//! segment, whose content stays in an arena while a handle of 16 bytes passes the queues and delay
//! lines of the links ([`weir_link::Medium`]: a wired pipe, which the emulator runs too, a wireless
//! channel or a lossless subnet). A medium, an endpoint and an application each have at most one
//! pending event in the [`Schedule`]: a link with ten thousand packets on its line waits for the
//! first of them only.
//!
//! A module uses only modules of the lines below its own:
//! ```text
//! assemble                     makes a simulation that is about to start
//! simulation                   runs it: an event, whose it is, what it does
//! summary                      sums up what it found
//! probe                        looks at queues and connections while it runs
//! flow  media                  traffics and links
//! relay                        connections joined into one, and split again
//! endpoint  outcome            connections; what is found
//! fabric  capture  trace       what carries packets, what writes them and looks at them down
//! arena  names  config         packets under way; what is to be simulated
//! error  traffic  counts  echo  schedule
//! ```

mod arena;
mod assemble;
mod capture;
mod config;
mod counts;
mod echo;
mod endpoint;
mod error;
mod fabric;
mod flow;
mod media;
mod names;
mod outcome;
mod probe;
mod relay;
mod schedule;
mod simulation;
mod summary;
mod trace;
mod traffic;

pub use config::{Config, LinkConfig, MediumConfig, NamedChannel, NodeConfig};
pub use error::PacketError;
pub use outcome::{
    ClassOutcome, CreditsOutcome, DirectionOutcome, EchoOutcome, FlowOutcome, LinkOutcome, Outcome,
    RelayOutcome, SpecialOutcome, StreamOutcome, Traces,
};
pub use schedule::{OBJECTS_MAX, Schedule};
pub use simulation::Simulation;
pub use traffic::{EctConfig, GeneratorConfig, LinkedAck, RelayConfig, TrafficConfig};
pub use weir_application::{
    ApplicationConfig, ApplicationOutcome, DatagramConfig, Quantiles, TcpConfig, VideoOutcome,
};
