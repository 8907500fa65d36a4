//! Pipes by which the kernel moves data from one connection to another (splice): they never enter
//! this program's memory.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

use crate::socket::Got;

/// What a pipe holds, and so what is moved by one call at most.
pub(crate) const PIPE: usize = 256 << 10;
/// What the pipe of an aggregate holds where data come in whole pages: the kernel counts pieces,
/// each as large as a packet's data where these came over a network.
pub(crate) const WIDE: usize = 1 << 20;
/// Pipes that are kept for the next who needs one.
const SPARE: usize = 64;
/// Pipes that a thread may have in use, two descriptors each.
const LENT_MAX: usize = 512;

/// A pipe, and how much is in it.
pub(crate) struct Pipe {
    exit: OwnedFd,
    entry: OwnedFd,
    held: usize,
}

impl Pipe {
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let (exit, entry) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // The kernel bounds what users without rights have in pipes; then it is as large as ever.
        let _ = fcntl_setpipe_size(&entry, size);
        Ok(Self { exit, entry, held: 0 })
    }

    /// What is in it, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// From a connection into the pipe, so much at most. `Nothing` of a pipe that was not empty may
    /// also mean that it is full.
    pub(crate) fn fill(&mut self, from: &Socket, most: usize) -> Got {
        loop {
            return match splice(from, None, &self.entry, None, most, flags()) {
                Ok(0) => Got::End,
                Ok(count) => {
                    self.held += count;
                    Got::Some(count)
                }
                Err(Errno::AGAIN) => Got::Nothing,
                Err(Errno::INTR) => continue,
                Err(error) => Got::Broken(error.into()),
            };
        }
    }

    /// From the pipe into a connection, as much as that takes at once; how much that was. With
    /// `has_more` the kernel waits for what follows where that makes a packet full: whatever has
    /// nothing to follow with has to [push](crate::socket::push) it.
    pub(crate) fn drain(&mut self, to: &Socket, has_more: bool) -> io::Result<usize> {
        let more = if has_more { SpliceFlags::MORE } else { SpliceFlags::empty() };
        loop {
            return match splice(&self.exit, None, to, None, self.held, flags() | more) {
                Ok(count) => {
                    self.held -= count;
                    Ok(count)
                }
                Err(Errno::AGAIN) => Ok(0),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }
}

fn flags() -> SpliceFlags {
    SpliceFlags::NONBLOCK | SpliceFlags::MOVE
}

/// The pipes of a thread: they are lent to who has something on its way.
#[derive(Default)]
pub(crate) struct Pipes {
    spare: Vec<Pipe>,
    lent: usize,
}

impl Pipes {
    /// An empty one; none if there are too many, or the kernel gives none.
    pub(crate) fn take(&mut self) -> Option<Pipe> {
        if self.lent >= LENT_MAX {
            return None;
        }
        let pipe = self.spare.pop().or_else(|| Pipe::new(PIPE).ok())?;
        self.lent += 1;
        Some(pipe)
    }

    /// Takes one back. What is still in it is lost.
    pub(crate) fn give_back(&mut self, pipe: Pipe) {
        self.lent -= 1;
        if pipe.held == 0 && self.spare.len() < SPARE {
            self.spare.push(pipe);
        }
    }
}
