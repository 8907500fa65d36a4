//! How long things take on the air: the physical layers of IEEE 802.11-2016.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::{DirectionConfig, LinkError};

/// LLC and SNAP headers of an IP packet.
const SNAP: u64 = 8;
/// What an IP packet has around it: MAC header and frame check sequence (clause 9.2), LLC and SNAP.
const MAC_OVERHEAD: u64 = 24 + 4 + SNAP;
/// Largest MSDU, LLC and SNAP included (clause 9.2.4.7.1).
const MSDU_MAX: u64 = 2_304;
/// An acknowledgement (clause 9.3.1.4).
const ACK: u64 = 14;
/// Signal extension of ERP-OFDM (clause 18.3.2.4).
const EXTENSION: Time = Time::from_us(6);

/// A physical layer. Each is pure: no station of another standard is on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Standard {
    /// HR/DSSS, 1 to 11 Mbit/s, with the long preamble (clause 16).
    #[serde(rename = "802.11b")]
    B,
    /// OFDM in 20 MHz at 5 GHz, 6 to 54 Mbit/s (clause 17).
    #[serde(rename = "802.11a")]
    A,
    /// ERP-OFDM with the short slot: OFDM at 2.4 GHz (clause 18).
    #[serde(rename = "802.11g")]
    G,
}

impl Standard {
    /// Every standard.
    pub const ALL: [Self; 3] = [Self::B, Self::A, Self::G];

    /// As in a configuration: "802.11g".
    pub const fn name(self) -> &'static str {
        match self {
            Self::B => "802.11b",
            Self::A => "802.11a",
            Self::G => "802.11g",
        }
    }

    /// What frames may be sent at, in bit/s.
    pub const fn rates_bps(self) -> &'static [u64] {
        match self {
            Self::B => &[1_000_000, 2_000_000, 5_500_000, 11_000_000],
            Self::A | Self::G => &[
                6_000_000, 9_000_000, 12_000_000, 18_000_000, 24_000_000, 36_000_000, 48_000_000,
                54_000_000,
            ],
        }
    }

    /// What acknowledgements may be sent at: 1 and 2 Mbit/s, or the mandatory rates of OFDM.
    const fn basic_rates_bps(self) -> &'static [u64] {
        match self {
            Self::B => &[1_000_000, 2_000_000],
            Self::A | Self::G => &[6_000_000, 12_000_000, 24_000_000],
        }
    }

    /// The unit of backoff.
    pub const fn slot(self) -> Time {
        match self {
            Self::B => Time::from_us(20),
            Self::A | Self::G => Time::from_us(9),
        }
    }

    /// Between a frame and its acknowledgement.
    pub const fn sifs(self) -> Time {
        match self {
            Self::B | Self::G => Time::from_us(10),
            Self::A => Time::from_us(16),
        }
    }

    /// How long the channel is idle before backoff goes on (clause 10.3.2.3.5).
    pub fn difs(self) -> Time {
        self.sifs() + self.slot() + self.slot()
    }

    /// The interframe space after a frame that nobody could read (clause 10.3.2.3.7).
    pub fn eifs(self) -> Time {
        self.sifs() + self.ack_at(self.basic_rates_bps()[0]) + self.difs()
    }

    /// Contention windows at first and at most.
    pub(crate) const fn windows(self) -> (u32, u32) {
        match self {
            Self::B => (31, 1023),
            Self::A | Self::G => (15, 1023),
        }
    }

    /// Whether a direction can be on the air, loss and queue apart; its PHY rate.
    ///
    /// # Errors
    /// [`LinkError`]: the standard does not have the rate, a packet of `mtu` does not fit a frame,
    /// or a key means nothing on the air.
    pub fn check(self, config: &DirectionConfig, mtu: Bytes) -> Result<Rate, LinkError> {
        if mtu.count() > MSDU_MAX - SNAP {
            let reason = format!("a frame holds a packet of up to {} bytes", MSDU_MAX - SNAP);
            return Err(LinkError::new("mtu_bytes", mtu.count(), reason));
        }
        for (key, ns) in [("delay_ns", config.delay_ns), ("jitter_ns", config.jitter_ns)] {
            if ns > 0 {
                let reason = "a wireless link has no delay but that of its channel";
                return Err(LinkError::new(key, ns, reason));
            }
        }
        let bps = config.rate_bps;
        let found = bps.filter(|bps| self.rates_bps().contains(bps)).map(Rate::from_bit_per_s);
        found.ok_or_else(|| {
            let given = bps.map_or_else(|| "unlimited".to_owned(), |bps| bps.to_string());
            let mbit = |bps: &u64| (*bps as f64 / 1e6).to_string();
            let known: Vec<String> = self.rates_bps().iter().map(mbit).collect();
            let reason = format!("{} sends at {} Mbit/s", self.name(), known.join(", "));
            LinkError::new("rate_bps", given, reason)
        })
    }

    /// How long the frame of an IP packet of `size` takes at `rate`.
    pub fn frame(self, size: Bytes, rate: Rate) -> Time {
        self.air_time(size.count() + MAC_OVERHEAD, rate.as_bit_per_s())
    }

    /// How long the acknowledgement of a frame sent at `rate` takes: its own rate is the highest
    /// basic one that is not above (clause 10.7.6.5.2).
    pub fn ack(self, rate: Rate) -> Time {
        let rates = self.basic_rates_bps();
        let fit = rates.iter().rev().find(|&&basic| basic <= rate.as_bit_per_s());
        self.ack_at(*fit.unwrap_or(&rates[0]))
    }

    fn ack_at(self, rate_bps: u64) -> Time {
        self.air_time(ACK, rate_bps)
    }

    /// TXTIME of `bytes`, MAC header included (clauses 16.3.4, 17.4.3 and 18.5.3).
    fn air_time(self, bytes: u64, rate_bps: u64) -> Time {
        let bits = 8 * bytes;
        match self {
            // 144 us of preamble, 48 of header, then whole microseconds.
            Self::B => Time::from_us(192 + (bits * 1_000_000).div_ceil(rate_bps)),
            // 16 us of preamble, 4 of header, then symbols of 4 us that hold the service field (16
            // bits), the frame and the tail (6 bits).
            Self::A | Self::G => {
                let bits_per_symbol = 4 * rate_bps / 1_000_000;
                let symbols = (16 + bits + 6).div_ceil(bits_per_symbol);
                let span = Time::from_us(20 + 4 * symbols);
                if self == Self::G { span + EXTENSION } else { span }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_what_the_standard_computes() {
        let mbit = Rate::from_mbit_per_s;
        // 1464 + 36 = 1500 B, as the tables of Jun, Peddabachagari and Sichitiu (NCA 2003) have it:
        // 12000 bits at 11 Mbit/s and 192 us; ceil(12022 / 216) = 56 symbols at 54 Mbit/s.
        let size = Bytes::new(1_464);
        assert_eq!(Standard::B.frame(size, mbit(11)), Time::from_us(192 + 1_091));
        assert_eq!(Standard::A.frame(size, mbit(54)), Time::from_us(20 + 4 * 56));
        assert_eq!(Standard::G.frame(size, mbit(54)), Time::from_us(20 + 4 * 56 + 6));
        // 112 bits at 2 Mbit/s; ceil(134 / 96) = 2 symbols at 24 Mbit/s, ceil(134 / 24) = 6 at 6.
        assert_eq!(Standard::B.ack(mbit(11)), Time::from_us(192 + 56));
        assert_eq!(Standard::A.ack(mbit(54)), Time::from_us(28));
        assert_eq!(Standard::A.ack(mbit(9)), Time::from_us(20 + 4 * 6));
        // SIFS + ACK at 1 Mbit/s + DIFS = 10 + 304 + 50.
        assert_eq!(Standard::B.eifs(), Time::from_us(364));
        assert_eq!(Standard::A.difs(), Time::from_us(34));
        assert_eq!(Standard::G.difs(), Time::from_us(28));
    }

    #[test]
    fn a_rate_that_no_station_has_is_refused_with_those_there_are() {
        let check = |rate_bps| {
            let config = DirectionConfig { rate_bps, ..DirectionConfig::default() };
            Standard::B.check(&config, Bytes::new(1_500))
        };
        assert_eq!(
            check(Some(7_000_000)).expect_err("no such rate").to_string(),
            "rate_bps = 7000000: 802.11b sends at 1, 2, 5.5, 11 Mbit/s"
        );
        let unlimited = check(None).expect_err("a station has a rate").to_string();
        assert!(unlimited.starts_with("rate_bps = unlimited"), "{unlimited}");
        assert!(check(Some(5_500_000)).is_ok());
    }
}
