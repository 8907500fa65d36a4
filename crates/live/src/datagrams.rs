//! The sending end of UDP traffic, at the rate that its source asks for.

use std::io;
use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weir_application::Paced;
use weir_units::Time;

use crate::clock::monotonic;
use crate::segments::cut;
use crate::{DatagramsConfig, LiveError};

/// What comes due within this is handed to the kernel together: the cost is by the send, not by
/// the packet.
const TICK: Time = Time::from_us(500);
/// Who wakes later than this leaves the time out.
const STALL: Time = Time::from_ms(50);
/// Packets of one send: below the kernel's 64.
const SEGMENTS_MAX: usize = 40;
/// Bytes of one send: below 64 KiB.
const SEND_MAX: usize = 65_000;

/// Datagrams of one traffic, on their way to one address.
pub struct Datagrams {
    socket: Socket,
    packets: Paced,
    /// When the next packet is due, counted from `begin`; `None` after the last.
    due: Option<Time>,
    /// When the source begins, moved by what was left out.
    begin: Time,
    /// When to look next.
    wake: Option<Time>,
    payload: usize,
    zeros: Box<[u8]>,
    sent: Sent,
}

/// What was sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sent {
    /// Handed to the kernel.
    pub packets: u64,
    /// Payload of those together.
    pub payload_bytes: u64,
    /// Time that the machine kept the sender from running, and that it left out rather than send a
    /// burst that the source never asked for.
    pub stalled_s: f64,
}

impl Datagrams {
    /// A socket in the network namespace of the calling thread, and nothing sent yet.
    ///
    /// # Errors
    /// [`LiveError::Value`] for what cannot be right, [`LiveError::System`] if the kernel refuses.
    pub fn new(config: &DatagramsConfig) -> Result<Self, LiveError> {
        let mut packets = config.packets()?;
        let payload = usize::from(packets.payload());
        let socket = socket(config, payload).map_err(LiveError::system("making a UDP socket"))?;
        Ok(Self {
            socket,
            due: packets.next(),
            packets,
            begin: Time::ZERO,
            wake: None,
            payload,
            zeros: vec![0; SEND_MAX.max(payload)].into_boxed_slice(),
            sent: Sent::default(),
        })
    }

    /// Sends what comes due until `end` on the monotonic clock, but for `slice` at most; whether
    /// there is more to send. The source begins at `begin` of the first call.
    ///
    /// # Errors
    /// [`LiveError::TooLarge`] where the path's packets are too small, [`LiveError::System`] where
    /// the kernel does not send.
    pub fn run_slice(&mut self, begin: Time, slice: Time, end: Time) -> Result<bool, LiveError> {
        let mut wake = *self.wake.get_or_insert_with(|| {
            self.begin = begin;
            begin.min(end)
        });
        let pause = monotonic().saturating_add(slice).min(end);
        loop {
            sleep_until(wake.min(pause));
            if pause < wake {
                return Ok(true);
            }
            let now = monotonic().min(end);
            if now - wake > STALL {
                self.sent.stalled_s += (now - wake).as_s();
                self.begin = self.begin.saturating_add(now - wake);
            }
            self.send_until(now)?;
            if now >= end {
                return Ok(false);
            }
            let next = self.due.map_or(end, |due| self.begin.saturating_add(due));
            wake = next.max(now.saturating_add(TICK)).min(end);
            self.wake = Some(wake);
        }
    }

    /// What was sent so far.
    pub const fn sent(&self) -> &Sent {
        &self.sent
    }

    fn send_until(&mut self, now: Time) -> Result<(), LiveError> {
        let elapsed = now.saturating_sub(self.begin);
        let most = (SEND_MAX / self.payload).clamp(1, SEGMENTS_MAX);
        loop {
            let mut count = 0;
            while count < most && self.due.is_some_and(|due| due <= elapsed) {
                count += 1;
                self.due = self.packets.next();
            }
            if count == 0 {
                return Ok(());
            }
            self.send(count)?;
        }
    }

    fn send(&mut self, count: usize) -> Result<(), LiveError> {
        let bytes = count * self.payload;
        loop {
            match self.socket.send(&self.zeros[..bytes]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refusal(error)),
                Ok(_) => break,
            }
        }
        self.sent.packets += count as u64;
        self.sent.payload_bytes += bytes as u64;
        Ok(())
    }

    /// The kernel refuses to cut into what is larger than the device's packets.
    fn refusal(&self, error: io::Error) -> LiveError {
        match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::MSGSIZE) => {
                LiveError::TooLarge { payload_bytes: self.payload }
            }
            _ => LiveError::system("cannot send")(error),
        }
    }
}

impl Sent {
    /// As JSON.
    ///
    /// # Errors
    /// Never in practice: every number is finite.
    pub fn to_json(&self) -> Result<String, LiveError> {
        serde_json::to_string(self).map_err(|error| LiveError::value("sent", error.to_string()))
    }
}

fn socket(config: &DatagramsConfig, payload: usize) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    cut(&socket, payload as i32)?;
    socket.set_tos_v4(u32::from(config.dscp << 2 | config.ecn))?;
    socket.connect(&SockAddr::from(SocketAddrV4::new(config.address, config.port)))?;
    Ok(socket)
}

fn sleep_until(at: Time) {
    let span = at.saturating_sub(monotonic());
    if span > Time::ZERO {
        thread::sleep(Duration::from_nanos(span.as_ns()));
    }
}
