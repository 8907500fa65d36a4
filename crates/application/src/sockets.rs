//! What an application acts by.

use weir_units::Time;

/// The connections between the two hosts of a traffic.
///
/// Each has two endpoints, numbered in pairs: the side that opened is even, its peer the next. An
/// application is both sides' at once, so it knows what an endpoint's peer has been asked for.
pub trait Sockets {
    /// The present.
    fn now(&self) -> Time;

    /// Opens a connection; returns the opening side, whose peer accepts.
    fn open(&mut self) -> u32;

    /// Offers bytes; returns how many were taken.
    fn write(&mut self, endpoint: u32, bytes: u64) -> u64;

    /// How many bytes would be taken.
    fn writable(&mut self, endpoint: u32) -> u64;

    /// Takes all that has arrived in order and counts it as delivered by the traffic.
    fn read(&mut self, endpoint: u32) -> u64;

    /// Takes all that has arrived in order: requests and acknowledgements, which the traffic is not
    /// there to deliver.
    fn take(&mut self, endpoint: u32) -> u64;

    /// Bytes written here that have arrived at the other side, as far as it is known here.
    fn acked(&mut self, endpoint: u32) -> u64;

    /// Whether the peer has closed and all it sent has been read.
    fn is_at_end(&mut self, endpoint: u32) -> bool;

    /// Ends the stream after what was written.
    fn close(&mut self, endpoint: u32);

    /// Tears the connection down.
    fn abort(&mut self, endpoint: u32);

    /// Whether nothing more will come of a connection: both sides are closed, or only wait for
    /// segments that went astray.
    fn is_over(&mut self, endpoint: u32) -> bool;

    /// The pair may be used again, whatever of its segments is still under way.
    fn free(&mut self, endpoint: u32);
}

/// The number of the other side of a connection.
pub const fn peer_of(endpoint: u32) -> u32 {
    endpoint ^ 1
}

/// The opening side of a connection, by either.
pub(crate) const fn opener_of(endpoint: u32) -> u32 {
    endpoint & !1
}

/// Whether it is the side that accepted.
pub(crate) const fn is_acceptor(endpoint: u32) -> bool {
    endpoint % 2 == 1
}

/// Frees a connection that is over, and closes the accepting side of one whose opener has.
pub(crate) fn clear_away(endpoint: u32, sockets: &mut impl Sockets) {
    if is_acceptor(endpoint) && sockets.is_at_end(endpoint) {
        sockets.close(endpoint);
    }
    if sockets.is_over(endpoint) {
        sockets.free(endpoint);
    }
}
