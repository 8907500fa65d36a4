//! Damaged messages and frame headers at the decoder. `WEIR_FUZZ_MESSAGES=5600000` tries so many
//! instead of what a run of the tests has time for, `WEIR_FUZZ_SEED` others.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use weir_random::Random;

use super::*;

/// Messages that are damaged, each many times.
const SOUND: usize = 1_000;
/// Bytes that a decoder may take for each one that it is given, and at all.
const TAKEN_PER_BYTE: usize = 128;
const TAKEN: usize = 1_024;

/// The standard library's, and a count of what each thread takes.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn asked_for(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a whole number"))
}

#[test]
fn damaged_messages_are_refused_or_mean_what_they_say_and_take_little() {
    let (count, seed) = (asked_for("WEIR_FUZZ_MESSAGES", 100_000), asked_for("WEIR_FUZZ_SEED", 1));
    let (sound, mut dice) = (sound(seed), Random::of_source(seed, &["damage"]));
    let (mut taken, mut headers) = (0, 0u64);
    for number in 0..count {
        if dice.chance(0.1) {
            headers += u64::from(header_holds(&mut dice));
            continue;
        }
        let pick = |dice: &mut Random| &sound[dice.up_to(SOUND as u64 - 1) as usize];
        let mut fields = pick(&mut dice).clone();
        for _ in 0..=dice.up_to(2) {
            damage(&mut fields, pick(&mut dice).as_slice(), &mut dice);
        }
        taken += u64::from(message_holds(&fields, number, seed));
    }
    println!(
        "{count} damaged messages and frame headers: {taken} messages and {headers} headers \
         taken for what they say, the others refused"
    );
    // Else it would be the check alone that is tried.
    assert!(taken > count / 20 && headers > count / 1_000, "{taken}, {headers}");
}

/// The fields of sound messages.
fn sound(seed: u64) -> Vec<Vec<u8>> {
    let messages = any_message();
    let config = Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    let mut runner = TestRunner::new(config);
    let fields = |message: Message| {
        let bytes = message.encode();
        bytes[PREFIX_SIZE..bytes.len() - 8].to_vec()
    };
    (0..SOUND)
        .map(|_| fields(messages.new_tree(&mut runner).expect("it filters little").current()))
        .collect()
}

/// One change of the kinds that get past a length check now and then.
fn damage(fields: &mut Vec<u8>, other: &[u8], dice: &mut Random) {
    let at = dice.up_to(fields.len() as u64) as usize;
    let rest = fields.len() - at;
    let extreme = [0, 1, 0x7f, 0x80, 0xff, b'/', b'.'][dice.up_to(6) as usize];
    match dice.up_to(7) {
        0 => fields.truncate(at),
        1 => fields.insert(at, dice.up_to(255) as u8),
        2 if rest > 0 => drop(fields.remove(at)),
        3 if rest > 0 => fields[at] ^= 1 << dice.up_to(7),
        4 => {
            let width = rest.min(1 << dice.up_to(3));
            fields[at..at + width].fill(extreme);
        }
        5 => {
            fields.truncate(at);
            fields.extend_from_slice(&other[dice.up_to(other.len() as u64) as usize..]);
        }
        // A kind of message with the fields of another.
        6 if !fields.is_empty() => fields[0] = other.first().copied().unwrap_or(extreme),
        _ => fields.extend((0..dice.up_to(40)).map(|_| dice.up_to(255) as u8)),
    }
}

/// Whether the message was taken, after a look at what it was taken for.
fn message_holds(fields: &[u8], number: u64, seed: u64) -> bool {
    let _ = RelativePath::new(fields);
    // The check is made to fit, so that the fields behind it are reached.
    let bytes = [fields, &blake3::hash(fields).as_bytes()[..8]].concat();
    let before = COUNT.get();
    let decoded = Message::decode(&bytes);
    let took = COUNT.get() - before;
    let bound = TAKEN + TAKEN_PER_BYTE * bytes.len();
    assert!(took <= bound, "message {number} of seed {seed}: {took} bytes for {}", bytes.len());
    let Ok(message) = decoded else { return false };
    means_what_it_says(fields, &message);
    true
}

/// Whether a header of mostly sound fields was taken, after a look at what it was taken for.
fn header_holds(dice: &mut Random) -> bool {
    let mut bytes = [0u8; HEADER_SIZE];
    bytes.fill_with(|| if dice.chance(0.7) { 0 } else { dice.up_to(255) as u8 });
    bytes[0] = dice.up_to(4) as u8;
    let end = HEADER_SIZE - 8;
    let check = blake3::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&check.as_bytes()[..8]);
    let Ok(header) = FrameHeader::decode(&bytes) else { return false };
    assert!(header.offset.is_multiple_of(CHUNK_SIZE));
    assert!(u64::from(header.length) <= CHUNK_SIZE * HOLE_CHUNKS);
    assert!(header.offset + u64::from(header.length) <= i64::MAX as u64);
    true
}
