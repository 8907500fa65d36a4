//! Everything a peer can make the wire decoder read; the same as the property test
//! `arbitrary_bytes_are_refused_or_mean_exactly_what_they_say` in `crates/transfer/tests/wire.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_transfer::wire::{
    FrameHeader, FrameTrailer, HEADER_SIZE, Message, PREFIX_SIZE, RelativePath, TRAILER_SIZE,
};

fuzz_target!(|fields: &[u8]| {
    let _ = RelativePath::new(fields);
    if let Some(bytes) = fields.first_chunk::<HEADER_SIZE>() {
        let _ = FrameHeader::decode(bytes);
    }
    if let Some(bytes) = fields.first_chunk::<TRAILER_SIZE>() {
        let _ = FrameTrailer::decode(bytes);
    }
    // The check is made to fit, so that the fields behind it are reached.
    let check = blake3::hash(fields);
    if let Ok(message) = Message::decode(&[fields, &check.as_bytes()[..8]].concat()) {
        let again = message.encode().split_off(PREFIX_SIZE);
        // Lists with room for far times may hold near ones alone.
        if matches!(fields[0], 45 | 46) && again[0] != fields[0] {
            assert_eq!(Message::decode(&again), Ok(message));
        } else {
            assert_eq!(&again[..fields.len()], fields);
        }
    }
});
