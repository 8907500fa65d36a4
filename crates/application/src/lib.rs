//! What hosts send: when an application writes how much on its connections, and what it makes of
//! what arrives; when a source of datagrams sends the next one. Without I/O and without a clock.
//!
//! The types to start with are [`ApplicationConfig`], read from JSON, and the [`Application`] that
//! it [`build`](ApplicationConfig::build)s. An application is told when its traffic starts, when
//! its timer runs out, when something may have changed at one of its endpoints, and when its
//! traffic stops; it acts by [`Sockets`]. The packet simulator has simulated connections behind
//! these, the lab those of the kernel: the same application, drawing the same random numbers, runs
//! over both and measures itself.
//!
//! A [`DatagramSource`], which its [`DatagramConfig`] builds, is but a sequence: when each packet
//! leaves and how large it is. Nothing that happens to them changes what is sent.

mod application;
mod assemble;
mod bulk;
mod calls;
mod config;
mod datagrams;
mod draws;
mod error;
mod game;
mod messages;
mod outcome;
mod pages;
mod panorama;
mod parameters;
mod sockets;
mod tcp;
mod video;
mod web;
mod writes;

pub use application::Application;
pub use bulk::Bulk;
pub use config::ApplicationConfig;
pub use datagrams::{
    BurstConfig, BurstLaw, Bursts, DatagramConfig, DatagramSource, Paced, Poisson, RATE_MAX, Rates,
    Requests,
};
pub use draws::exponential;
pub use error::ApplicationError;
pub use game::{GameConnection, GameConnections};
pub use outcome::{ApplicationOutcome, PanoramaOutcome, Quantiles, VideoOutcome};
pub use parameters::parameters;
pub use sockets::{Sockets, peer_of};
pub use tcp::{Recovery, TcpConfig};
pub use web::{Done, Web};
