//! A wireless channel: stations that contend for it by the distributed coordination function (DCF)
//! of IEEE 802.11-2016, clause 10.3.
//!
//! Modelled, by clause: carrier sense with DIFS, and EIFS after a failed frame (10.3.2.3), backoff
//! with a window that doubles (10.3.3), immediate access to an idle channel, backoff after every
//! transmission (10.3.4.3), acknowledgement and retransmission up to a limit (10.3.2.9, 10.3.4.4),
//! durations of frames to the microsecond or symbol (16.3.4, 17.4.3, 18.5.3).
//!
//! Every station hears every other: frames collide only if they begin in the same slot, and none of
//! them survives. A frame that comes to an idle channel begins at the next slot boundary.
//! Propagation is within the slot time. After a failed frame everybody, its senders too, waits for
//! EIFS; in the standard a sender waits for its acknowledgement to time out and then for DIFS.
//!
//! Not modelled: RTS/CTS, hidden stations, capture, rate adaptation, EDCA (802.11e), aggregation
//! and everything else since 802.11n, beacons, association, power saving, mixed 802.11b/g cells.

mod channel;
mod phy;
mod radio;
mod stations;

pub use channel::{Channel, ChannelConfig};
pub use phy::Standard;
pub use stations::Stations;
