//! The decision "schedule": who may send, on which path, when and how fast.
//!
//! Pure and deterministic: time comes in as an argument, changes of rate go out as values; nothing
//! here reads a clock, does I/O, draws an unseeded random number or decides in floating point. The
//! same code answers the live calendar and the fluid simulator.
//!
//! [`calendar`] admits transfers with deadlines on the links of a network, ahead of their time.
//! [`deadline`] says which flow a link serves next, when all are small and due at once.

pub mod calendar;
pub mod deadline;
