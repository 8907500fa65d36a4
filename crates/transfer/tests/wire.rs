//! The wire decoder: what is encoded is read back, and nothing that arrives can make it panic,
//! allocate beyond its input, or accept what is damaged. `fuzz/` runs the same entry point.
#![allow(unsafe_code)]

#[path = "wire/damaged.rs"]
mod damaged;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weir_transfer::wire::*;

fn path() -> impl Strategy<Value = RelativePath> {
    let name = vec(any::<u8>().prop_filter("no slash or NUL", |b| !matches!(b, b'/' | 0)), 1..40)
        .prop_filter("not a dot name", |name| name != b"." && name != b"..");
    vec(name, 0..4)
        .prop_map(|names| RelativePath::new(&names.join(&b'/')).expect("the names are plain"))
}

fn options() -> impl Strategy<Value = Options> {
    let demands = (any::<bool>(), any::<bool>(), any::<bool>());
    (any::<bool>(), demands, any::<bool>(), any::<u64>(), "[a-z0-9_]{0,15}", any::<u16>()).prop_map(
        |(hash, demands, follow_links, rate_bps, congestion, streams)| Options {
            hash: if hash { HashKind::Blake3 } else { HashKind::None },
            sync: demands.0,
            checksum: demands.1,
            read_back: demands.2,
            follow_links,
            rate_bps,
            congestion,
            streams,
        },
    )
}

/// Nanoseconds since 1970 of any second that 64 bits hold.
fn time() -> impl Strategy<Value = i128> {
    let far = (any::<i64>(), 0..1_000_000_000i128)
        .prop_map(|(seconds, nanoseconds)| i128::from(seconds) * 1_000_000_000 + nanoseconds);
    prop_oneof![any::<i64>().prop_map(i128::from), far, Just(i128::from(i64::MAX))]
}

fn file_entry() -> impl Strategy<Value = FileEntry> {
    let size = 0..=i64::MAX as u64;
    (path(), size, time(), 0..=0o777u16, any::<bool>()).prop_map(
        |(path, size_bytes, modified_ns, mode, sparse)| FileEntry {
            path,
            size_bytes,
            modified_ns,
            mode,
            sparse,
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let run = any::<(u64, u64)>().prop_map(|(first, count)| ChunkRun { first, count });
    let state = prop_oneof![
        Just(AnswerState::Present),
        Just(AnswerState::Alike),
        vec(run, 0..5).prop_map(AnswerState::Missing),
    ];
    (any::<u64>(), state).prop_map(|(file, state)| Answer { file, state })
}

fn code() -> impl Strategy<Value = FailureCode> {
    prop_oneof![
        Just(FailureCode::BadRequest),
        Just(FailureCode::Corrupt),
        Just(FailureCode::DiskFull),
        Just(FailureCode::Lost),
    ]
}

fn session_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<bool>(), any::<[u8; 16]>()).prop_map(|(data, token)| Message::Hello {
            role: if data { Role::Data } else { Role::Control },
            token,
        }),
        (any::<[u8; 16]>(), 1..=NEWEST, any::<u16>()).prop_map(|(token, version, streams_max)| {
            Message::Welcome { token, version, streams_max }
        }),
        (code(), "\\PC{0,99}").prop_map(|(code, message)| Message::Failure { code, message }),
        (vec(any::<u8>(), 0..99), options())
            .prop_map(|(destination, options)| Message::Put { destination, options }),
        (vec(vec(any::<u8>(), 0..99), 0..5), options())
            .prop_map(|(sources, options)| Message::Get { sources, options }),
        (vec(any::<u8>(), 0..99), options())
            .prop_map(|(place, options)| Message::Catalogue { place, options }),
        Just(Message::Ready),
        any::<u64>().prop_map(|rate_bps| Message::SetRate { rate_bps }),
        "[a-z]{0,15}".prop_map(|name| Message::SetCongestion { name }),
        Just(Message::Ping),
        "\\PC{0,99}".prop_map(|message| Message::Skipped { message }),
        "\\PC{0,99}".prop_map(|message| Message::Unset { message }),
        any::<u16>().prop_map(|streams| Message::Joined { streams }),
        (vec(any::<u8>(), 0..99), options())
            .prop_map(|(destination, options)| Message::Assist { destination, options }),
        (vec(vec(any::<u8>(), 0..99), 0..5), options())
            .prop_map(|(sources, options)| Message::Supply { sources, options }),
    ]
}

fn deal_message() -> impl Strategy<Value = Message> {
    let (file, helper) = (any::<u64>, || 0..64u8);
    let run = any::<(u64, u64)>().prop_map(|(first, count)| ChunkRun { first, count });
    prop_oneof![
        (helper(), any::<u16>()).prop_map(|(helper, chunks)| Message::Ask { helper, chunks }),
        (file(), helper(), any::<u64>(), vec(any::<[u8; 32]>(), 0..5)).prop_map(
            |(file, helper, first, hashes)| Message::Dealt { file, helper, first, hashes }
        ),
        (file(), vec(any::<u64>(), 0..5))
            .prop_map(|(file, chunks)| Message::Return { file, chunks }),
        (file(), path(), any::<u64>(), time(), run).prop_map(
            |(file, path, size_bytes, modified_ns, run)| Message::Want {
                file,
                path,
                size_bytes,
                modified_ns,
                run,
            }
        ),
    ]
}

fn stripe_message() -> impl Strategy<Value = Message> {
    let (file, helper) = (any::<u64>, || 0..64u8);
    let written = any::<(u64, [u8; 32])>().prop_map(|(chunk, hash)| WrittenChunk { chunk, hash });
    let lease = (file(), helper(), path(), any::<(u64, bool, bool, [u8; 32])>());
    prop_oneof![
        (file(), helper()).prop_map(|(file, helper)| Message::Lend { file, helper }),
        (file(), helper(), any::<bool>(), option::of(any::<[u8; 32]>()))
            .prop_map(|(file, helper, exact, lease)| Message::Lent { file, helper, exact, lease }),
        (file(), vec(written, 0..5)).prop_map(|(file, chunks)| Message::Written { file, chunks }),
        (file(), vec(any::<u64>(), 0..5))
            .prop_map(|(file, chunks)| Message::Unseen { file, chunks }),
        (file(), helper(), any::<bool>()).prop_map(|(file, helper, clean)| Message::TakeBack {
            file,
            helper,
            clean
        }),
        lease.prop_map(|(file, helper, path, (size_bytes, sparse, exact, lease))| Message::Lease {
            file,
            helper,
            path,
            size_bytes,
            sparse,
            exact,
            lease,
        }),
        file().prop_map(|file| Message::Opened { file }),
        (file(), vec(any::<u64>(), 0..5))
            .prop_map(|(file, chunks)| Message::Stored { file, chunks }),
    ]
}

fn file_message() -> impl Strategy<Value = Message> {
    let settled = any::<(u64, [u8; 32])>().prop_map(|(file, hash)| Settled { file, hash });
    let link =
        (path(), vec(any::<u8>(), 0..99)).prop_map(|(path, target)| LinkEntry { path, target });
    let directory = (path(), time(), 0..=0o777u16)
        .prop_map(|(path, modified_ns, mode)| DirectoryEntry { path, modified_ns, mode });
    prop_oneof![
        any::<bool>().prop_map(|single_file| Message::Begin { single_file }),
        (any::<u64>(), vec(file_entry(), 0..5))
            .prop_map(|(first, files)| Message::Offer { first, files }),
        vec(answer(), 0..5).prop_map(Message::Answers),
        any::<u64>().prop_map(|file| Message::Received { file }),
        any::<(u64, [u8; 32])>().prop_map(|(file, hash)| Message::Content { file, hash }),
        (any::<u64>(), option::of(any::<[u8; 32]>()))
            .prop_map(|(file, hash)| Message::Commit { file, hash }),
        vec(settled, 0..5).prop_map(Message::Committed),
        (any::<u64>(), code(), "\\PC{0,99}")
            .prop_map(|(file, code, message)| Message::FileFailed { file, code, message }),
        any::<(u64, u64)>().prop_map(|(received_bytes, durable_bytes)| Message::Progress {
            received_bytes,
            durable_bytes,
        }),
        any::<(u64, u64, bool)>().prop_map(|(files, size_bytes, complete)| Message::Totals {
            files,
            size_bytes,
            complete
        }),
        vec(link, 0..5).prop_map(Message::Links),
        vec(directory, 0..5).prop_map(Message::Directories),
        Just(Message::Finish),
        Just(Message::Finished),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![session_message(), file_message(), stripe_message(), deal_message()]
}

fn header() -> impl Strategy<Value = FrameHeader> {
    let place = (any::<u64>(), 0..1u64 << 40, any::<u32>(), any::<bool>());
    place.prop_map(|(file, chunk, length, hole)| FrameHeader {
        kind: if hole { FrameKind::Hole } else { FrameKind::Chunk },
        file,
        offset: chunk * CHUNK_SIZE,
        length: length % (CHUNK_SIZE as u32 + 1),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_survive_the_wire(message in any_message()) {
        let bytes = message.encode();
        let prefix: [u8; PREFIX_SIZE] = bytes[..PREFIX_SIZE].try_into().unwrap();
        let length = message_length(prefix, MESSAGE_LIMIT).unwrap();
        prop_assert_eq!(length, bytes.len() - PREFIX_SIZE);
        prop_assert_eq!(Message::decode(&bytes[PREFIX_SIZE..]), Ok(message));
    }

    #[test]
    fn a_flipped_bit_is_noticed(
        message in any_message(), place in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        let mut bytes = message.encode().split_off(PREFIX_SIZE);
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        prop_assert_eq!(Message::decode(&bytes), Err(WireError::Check));
    }

    #[test]
    fn a_cut_message_is_no_message(message in any_message(), cut in any::<prop::sample::Index>()) {
        let bytes = message.encode().split_off(PREFIX_SIZE);
        prop_assert!(Message::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn headers_survive_the_wire_and_damage_is_noticed(
        header in header(), place in 0..HEADER_SIZE, bit in 0..8u8,
    ) {
        let mut bytes = header.encode();
        prop_assert_eq!(FrameHeader::decode(&bytes), Ok(header));
        bytes[place] ^= 1 << bit;
        prop_assert_eq!(FrameHeader::decode(&bytes), Err(WireError::Check));
    }

    /// With the check made to fit, arbitrary fields reach every decoder.
    #[test]
    fn arbitrary_bytes_are_refused_or_mean_exactly_what_they_say(
        fields in vec(any::<u8>(), 1..300),
    ) {
        decode_like_the_fuzzer(&fields);
    }

    #[test]
    fn known_kinds_with_arbitrary_fields_do_not_panic(
        kind in prop_oneof![1..4u8, 16..22u8, 32..48u8, 48..65u8],
        fields in vec(any::<u8>(), 0..300),
    ) {
        decode_like_the_fuzzer(&[&[kind], &fields[..]].concat());
    }
}

/// What `fuzz/fuzz_targets/wire.rs` does with its input.
fn decode_like_the_fuzzer(fields: &[u8]) {
    let _ = RelativePath::new(fields);
    if let Some(bytes) = fields.first_chunk::<HEADER_SIZE>() {
        let _ = FrameHeader::decode(bytes);
    }
    if let Some(bytes) = fields.first_chunk::<TRAILER_SIZE>() {
        let _ = FrameTrailer::decode(bytes);
    }
    let check = blake3::hash(fields);
    if let Ok(message) = Message::decode(&[fields, &check.as_bytes()[..8]].concat()) {
        means_what_it_says(fields, &message);
    }
}

/// Whatever is accepted has one encoding: nothing was guessed or dropped. Only lists with room for
/// far times may hold near ones alone, and then have the shorter encoding as well.
fn means_what_it_says(fields: &[u8], message: &Message) {
    let again = message.encode().split_off(PREFIX_SIZE);
    if matches!(fields[0], 45 | 46) && again[0] != fields[0] {
        assert_eq!(Message::decode(&again).as_ref(), Ok(message));
    } else {
        assert_eq!(&again[..fields.len()], fields);
    }
}

#[test]
fn lengths_over_the_limit_are_refused_before_anything_is_read() {
    assert!(message_length([0xff; 4], MESSAGE_LIMIT).is_err());
    assert!(message_length([0, 0, 0, 8], MESSAGE_LIMIT).is_err());
    // A list that claims 2^32-1 entries in a message of a few bytes.
    let fields = [&[34u8][..], &[0xff; 4]].concat();
    let check = blake3::hash(&fields);
    let error = Message::decode(&[&fields[..], &check.as_bytes()[..8]].concat()).unwrap_err();
    assert!(matches!(error, WireError::TooLong { field: "answers", .. }), "{error}");
}

#[test]
fn another_version_is_named() {
    let mut bytes = Message::Hello { role: Role::Control, token: [0; 16] }.encode();
    let end = bytes.len() - 8;
    bytes[PREFIX_SIZE + 10] = 99;
    let check = blake3::hash(&bytes[PREFIX_SIZE..end]);
    bytes[end..].copy_from_slice(&check.as_bytes()[..8]);
    assert_eq!(Message::decode(&bytes[PREFIX_SIZE..]), Err(WireError::Version(99)));
}

/// Options that demand nothing new are those that every version knows.
#[test]
fn demands_that_a_peer_of_version_1_knows_are_told_as_it_knows_them() {
    let put = |sync, checksum, read_back| {
        let options = Options {
            hash: HashKind::Blake3,
            sync,
            checksum,
            read_back,
            follow_links: false,
            rate_bps: 7,
            congestion: String::new(),
            streams: 1,
        };
        Message::Put { destination: b"x".to_vec(), options }.encode()
    };
    // After the prefix, the kind and the destination: hash, sync, follow_links.
    let place = PREFIX_SIZE + 1 + 3;
    assert_eq!(put(false, false, false)[place..place + 3], [1, 0, 0]);
    assert_eq!(put(true, false, false)[place..place + 3], [1, 1, 0]);
    assert_eq!(put(true, true, true)[place..place + 3], [1, 7, 0]);
}

/// A peer of version 1 is told the nearest time that it can be told, in the messages it knows.
#[test]
fn a_far_time_saturates_for_version_1_and_is_whole_for_version_2() {
    let year_2400 = 13_569_465_600_i128 * 1_000_000_000 + 123_456_789;
    let entry = |modified_ns| FileEntry {
        path: RelativePath::new(b"f").unwrap(),
        size_bytes: 3,
        modified_ns,
        mode: 0o644,
        sparse: false,
    };
    let offer = |modified_ns| Message::Offer { first: 7, files: vec![entry(modified_ns)] };
    let told = |message: &Message, version| {
        Message::decode(&message.encode_for(version).split_off(PREFIX_SIZE)).unwrap()
    };
    for time in [year_2400, -year_2400 * 2] {
        assert_eq!(told(&offer(time), 2), offer(time));
        let end = if time > 0 { i64::MAX } else { i64::MIN };
        assert_eq!(told(&offer(time), 1), offer(end.into()));
    }
    let near = offer(1_700_000_000_123_456_789);
    assert_eq!(near.encode_for(1), near.encode_for(2));
}
