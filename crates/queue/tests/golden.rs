//! Small cases worked out by hand.

mod common;

use common::{TestPacket, drain, offer};
use weir_queue::{Fifo, Limit, Priority, QueueDiscipline};
use weir_units::{Bytes, Rate, Time};

#[test]
fn a_fifo_of_bytes_drops_what_does_not_fit_and_takes_what_does() {
    let mut queue = Fifo::new(Limit::Bytes(Bytes::new(3_000)));
    let packets = [(0, 1_500), (1, 1_000), (2, 600), (3, 500), (4, 1)];
    // 1500 + 1000 leaves 500: the 600 is refused, the 500 fits exactly, the 1 no more.
    let dropped = offer(&mut queue, &packets.map(|(number, size)| TestPacket::new(number, size)));
    assert_eq!(dropped, [2, 4]);
    assert_eq!(queue.backlog().bytes, Bytes::new(3_000));
    assert_eq!(drain(&mut queue), [0, 1, 3]);
}

#[test]
fn a_fifo_of_packets_counts_packets_whatever_their_size() {
    let mut queue = Fifo::new(Limit::Packets(2));
    let dropped = offer(&mut queue, &[9_000, 40, 40].map(|size| TestPacket::new(size, size)));
    assert_eq!((dropped, drain(&mut queue)), (vec![40], vec![9_000, 40]));
}

#[test]
fn a_limit_in_time_is_what_the_link_sends_in_that_time() {
    // 001-spec section 2.3: 6 MiB at 500 Mbit/s are 100.7 ms.
    let limit = Limit::of_time(Time::from_us(100_663), Rate::from_mbit_per_s(500));
    assert_eq!(limit, Limit::Bytes(Bytes::new(6_291_437)));
}

#[test]
fn priority_sends_scavengers_last_and_gives_each_class_half_the_buffer() {
    let mut queue = Priority::new(Limit::Packets(4));
    let (low, high) = (TestPacket::scavenger, TestPacket::new);
    let packets = [low(0, 100), low(1, 100), low(2, 100), high(3, 100), high(4, 100), high(5, 100)];
    // Two places each: the third of either class is dropped though the other class has room.
    assert_eq!(offer(&mut queue, &packets[..3]), [2]);
    assert_eq!(offer(&mut queue, &packets[3..]), [5]);
    assert_eq!(drain(&mut queue), [3, 4, 0, 1]);
    let classes = queue.classes();
    assert_eq!(classes.iter().map(|class| &*class.name).collect::<Vec<_>>(), ["high", "low"]);
    assert_eq!(classes.iter().map(|class| class.dropped()).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn sojourn_is_the_time_from_enqueue_to_dequeue() {
    let mut queue = Fifo::new(Limit::None);
    let mut dropped = Vec::new();
    queue.enqueue(TestPacket::new(0, 100), Time::from_ms(10), &mut dropped);
    queue.dequeue(Time::from_ms(17), &mut dropped);
    assert_eq!(queue.classes()[0].sojourn.max(), Time::from_ms(7));
}
