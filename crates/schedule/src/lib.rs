//! The decision "schedule": who may send, on which path, when and how fast.
//!
//! Pure and deterministic: time comes in as an argument, changes of rate go out as values; nothing
//! here reads a clock, does I/O or draws an unseeded random number, and what a decision promises is
//! computed in whole numbers. The same code answers the live calendar and the fluid simulator.
//!
//! [`calendar`] admits transfers with deadlines on the links of a network, ahead of their time.
//! [`deadline`] says which flow a link serves next, when all are small and due at once.
//! [`headroom`] spreads low-priority elephant flows over the paths of a network as they start.
//! [`migration`] orders the live migrations of virtual machines.

pub mod calendar;
pub mod deadline;
pub mod headroom;
pub mod migration;
