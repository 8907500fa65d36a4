//! The decision "schedule": who may send, on which path, when and how fast.
//!
//! Pure and deterministic: time comes in as an argument, changes of rate go out as values; nothing
//! here reads a clock, does I/O, draws a random number or computes in floating point. The same
//! code answers the live calendar and the fluid simulator.
//!
//! [`calendar`] admits transfers with deadlines.

pub mod calendar;
