//! Whether large packets reach the receiver. A path that drops them and does not say so is a black
//! hole for TCP's discovery of the MTU (RFC 2923): small packets pass, so that the session lives,
//! and nothing moves.

use std::net::TcpStream;

use super::Sending;
use crate::error::TransferError;
use crate::socket;

/// So often in a row a segment is sent again in vain, which takes 6 s and more, before its size is
/// the reason. A kernel that tries smaller packets by itself (`tcp_mtu_probing`) has found one.
const VAIN: u8 = 5;

/// What the control connection, whose packets are small, has delivered until the last look.
#[derive(Default)]
pub(super) struct Reach {
    acked: u64,
}

impl Sending {
    /// An error if packets of a data connection are lost for their size; to be called after each
    /// sign of life, which tells whether small ones pass.
    pub(super) fn check_reach(&self, reach: &mut Reach) -> Result<(), TransferError> {
        let acked = socket::bytes_acked(self.control.socket()).unwrap_or(0);
        let small_pass = acked > std::mem::replace(&mut reach.acked, acked);
        // A router may let none of a lower class pass, whatever their size.
        let sockets = self.sockets();
        let own = sockets.iter().enumerate().filter(|(index, _)| !self.lanes.has(*index));
        match own.filter_map(|(_, socket)| lost(socket)).max() {
            Some(bytes) if small_pass => {
                let peer = self.control.peer().to_owned();
                Err(TransferError::LargePackets { peer, bytes })
            }
            _ => Ok(()),
        }
    }
}

/// The size of packets that this connection sends in vain, if it does. One that is gone is
/// reported by the thread that writes to it.
fn lost(socket: &TcpStream) -> Option<u32> {
    let (times, bytes) = socket::vain(socket).ok()?;
    (times >= VAIN).then_some(bytes)
}
