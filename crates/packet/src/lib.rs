//! Packet simulator.
