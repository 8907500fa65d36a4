//! Functions of the C library that this program replaces: what the mover and the standard library
//! call reaches the simulated kernel when a simulated thread calls, the real one otherwise.

mod file;
mod socket;
mod thread;
