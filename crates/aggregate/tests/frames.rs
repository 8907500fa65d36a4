//! Frames, messages and UIDs (003-spec T-A1).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use weir_aggregate::ProtocolError;
use weir_aggregate::frame::{
    DATA_MAX, Decoder, FLOWS_MAX, LONG_DATA_MAX, Piece, UidPool, header, long_header,
};
use weir_aggregate::message::{Message, Reason};

/// What a decoder tells of these bytes when they come in such parts; data that touch are put
/// together, since they may be told in any number of pieces.
fn told(bytes: &[u8], cuts: &[usize]) -> Result<Vec<(u16, Vec<u8>)>, ProtocolError> {
    let mut decoder = Decoder::default();
    let mut told: Vec<(u16, Vec<u8>)> = Vec::new();
    let mut is_open = false;
    let mut each = |piece: Piece<'_>| {
        match piece {
            Piece::Data(uid, data) if is_open && told.last().is_some_and(|last| last.0 == uid) => {
                told.last_mut().expect("there is one").1.extend_from_slice(data);
            }
            Piece::Data(uid, data) => told.push((uid, data.to_vec())),
            Piece::End(uid) => told.push((uid, Vec::new())),
            Piece::Control(data) => told.push((0, data.to_vec())),
        }
        is_open = matches!(piece, Piece::Data(..));
        Ok(())
    };
    let mut rest = bytes;
    for cut in cuts {
        let (part, behind) = rest.split_at((*cut).min(rest.len()));
        decoder.read(part, &mut each)?;
        rest = behind;
    }
    decoder.read(rest, &mut each)?;
    assert!(decoder.is_between_frames());
    Ok(told)
}

fn framed(frames: &[(u16, Vec<u8>)]) -> Vec<u8> {
    // Some of a flow's are long ones, whatever they hold: what comes out is the same.
    let whole = |(uid, data): &(u16, Vec<u8>)| {
        let is_long = *uid != 0 && data.len() % 3 == 1;
        let mut bytes = if is_long {
            long_header(*uid, data.len()).to_vec()
        } else {
            header(*uid, data.len()).to_vec()
        };
        bytes.extend_from_slice(data);
        bytes
    };
    frames.iter().flat_map(whole).collect()
}

fn frames() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let one = (0..5_u16, prop::collection::vec(any::<u8>(), 0..300));
    let is_told = |(uid, data): &(u16, Vec<u8>)| *uid != 0 || !data.is_empty();
    prop::collection::vec(one.prop_filter("a message is not empty", is_told), 0..20)
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        frames in frames(), cuts in prop::collection::vec(0..50_usize, 0..80)
    ) {
        let mut wanted: Vec<(u16, Vec<u8>)> = Vec::new();
        for (uid, data) in &frames {
            let is_more = |last: &(u16, Vec<u8>)| {
                *uid != 0 && last.0 == *uid && !last.1.is_empty() && !data.is_empty()
            };
            match wanted.last_mut().filter(|last| is_more(last)) {
                Some(last) => last.1.extend_from_slice(data),
                None => wanted.push((*uid, data.clone())),
            }
        }
        prop_assert_eq!(told(&framed(&frames), &cuts).expect("these are frames"), wanted);
    }

    #[test]
    fn data_that_go_another_way_are_not_missed(
        frames in frames(),
        steps in prop::collection::vec((any::<bool>(), 1..200_usize), 1..80),
    ) {
        let bytes = framed(&frames);
        let mut decoder = Decoder::default();
        let (mut rest, mut steps) = (bytes.as_slice(), steps.iter().cycle());
        let mut told: HashMap<u16, Vec<u8>> = HashMap::new();
        while !rest.is_empty() {
            let &(is_passed, most) = steps.next().expect("for ever");
            match decoder.under_way().filter(|(uid, _)| is_passed && *uid != 0) {
                Some((uid, left)) => {
                    let (part, behind) = rest.split_at(left.min(most));
                    told.entry(uid).or_default().extend_from_slice(part);
                    decoder.passed(part.len());
                    rest = behind;
                }
                None => {
                    let (part, behind) = rest.split_at(most.min(rest.len()));
                    let done: Result<(), ProtocolError> = decoder.read(part, |piece| {
                        match piece {
                            Piece::Data(uid, data) => {
                                told.entry(uid).or_default().extend_from_slice(data);
                            }
                            Piece::Control(data) => {
                                told.entry(0).or_default().extend_from_slice(data);
                            }
                            Piece::End(_) => {}
                        }
                        Ok(())
                    });
                    done.expect("these are frames");
                    rest = behind;
                }
            }
        }
        prop_assert!(decoder.is_between_frames());
        let mut wanted: HashMap<u16, Vec<u8>> = HashMap::new();
        for (uid, data) in frames.iter().filter(|(_, data)| !data.is_empty()) {
            wanted.entry(*uid).or_default().extend_from_slice(data);
        }
        prop_assert_eq!(told, wanted);
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let mut decoder = Decoder::default();
        let mut count = 0;
        let done = decoder.read(&bytes, |piece| {
            count += match piece {
                Piece::Data(_, data) | Piece::Control(data) => data.len(),
                Piece::End(_) => 0,
            };
            Ok(())
        });
        prop_assert!(count <= bytes.len());
        if let Err(error) = done {
            prop_assert!(matches!(error, ProtocolError(_)));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(message) = Message::read(&bytes) {
            let mut again = Vec::new();
            message.write(&mut again);
            prop_assert_eq!(&again[4..], bytes.as_slice());
        }
    }
}

#[test]
fn messages_come_out_as_they_went_in() {
    let client: SocketAddr = "10.1.2.3:40000".parse().expect("an address");
    let server: SocketAddr = "[fd00::1]:443".parse().expect("an address");
    for message in [
        Message::Hello { version: 1 },
        Message::Open { uid: 7, client, server },
        Message::Opened { uid: 65_532 },
        Message::Room { uid: 1, until: 1 << 40 },
        Message::Acknowledged { uid: 1, until: u64::MAX },
        Message::Reset { uid: 9, reason: Reason::Forbidden },
        Message::Closed { uid: 9 },
        Message::TellAcknowledged,
        Message::Alive { patience: Duration::from_millis(40_001) },
    ] {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let frames = told(&bytes, &[3, 5]).expect("a message is a frame");
        assert_eq!(frames.len(), 1);
        assert_eq!(Message::read(&frames[0].1).expect("a message"), message);
    }
}

#[test]
fn a_length_of_less_than_a_header_and_a_uid_that_is_none_are_refused() {
    for (bytes, words) in [
        ([0, 1, 0, 3], "a frame of 3 bytes"),
        ([0, 1, 0, 0], "a frame of 0 bytes"),
        ([0, 0, 0, 4], "an empty message"),
        ([0xFF, 0xFD, 0, 9], "UID 65533"),
        ([0xFF, 0xFF, 0, 9], "UID 65535"),
    ] {
        let error = told(&bytes, &[]).expect_err("this is no frame");
        assert!(error.to_string().contains(words), "{error}");
    }
    for (uid, data, words) in [
        (0_u16, 1_u32, "UID 0"),
        (0xFFFD, 1, "UID 65533"),
        (7, 0, "a long frame of 0 bytes"),
        (7, LONG_DATA_MAX as u32 + 1, "a long frame of 1048577 bytes"),
        (7, u32::MAX, "a long frame of 4294967295 bytes"),
    ] {
        let mut bytes = long_header(7, 1).to_vec();
        bytes[4..6].copy_from_slice(&uid.to_be_bytes());
        bytes[6..].copy_from_slice(&data.to_be_bytes());
        let error = told(&bytes, &[3, 2]).expect_err("this is no frame");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_frame_of_the_largest_size_passes() {
    let data = vec![0xA5; DATA_MAX];
    let frames = told(&framed(&[(0xFFFC, data.clone())]), &[1, 70, 40_000]).expect("a frame");
    assert_eq!(frames, [(0xFFFC, data)]);
}

#[test]
fn a_long_frame_says_how_much_it_has() {
    let bytes = [&long_header(0x0102, LONG_DATA_MAX)[..], &vec![0x5A; LONG_DATA_MAX]].concat();
    assert_eq!(bytes[..10], [0xFF, 0xFD, 0, 10, 1, 2, 0, 0x10, 0, 0]);
    let frames = told(&bytes, &[4, 5, 2, 300_000]).expect("a frame");
    assert_eq!(frames, [(0x0102, vec![0x5A; LONG_DATA_MAX])]);
}

#[test]
fn there_are_65_532_uids_and_each_is_one_flows() {
    let mut pool = UidPool::default();
    let mut taken: Vec<u16> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(taken.len(), FLOWS_MAX);
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), FLOWS_MAX);
    assert!(taken[0] >= 1 && taken[FLOWS_MAX - 1] <= 0xFFFC);
    pool.give_back(17);
    pool.give_back(4);
    assert_eq!((pool.take(), pool.take(), pool.take()), (Some(17), Some(4), None));
}
