//! Frames at a switch's port: whole, one packet each, checksums that a receiver accepts.

use proptest::prelude::*;

use crate::arena::Arena;
use crate::coalesce::Run;
use crate::frame;
use crate::headers::{ETHERNET_HEADER, set_octet};
use crate::offload::{Layout, Malformed, VNET_HEADER, VnetHeader};
use crate::segment::Segment;

const TCP_HEADER: usize = 20;
const PARTIAL: VnetHeader = VnetHeader {
    flags: 1,
    gso_type: 1,
    header_len: 40,
    gso_size: 1_000,
    csum_start: 20,
    csum_offset: 16,
};

/// The sum that RFC 1071 asks of every covered range: all ones if the checksum in it is right.
fn sum(ranges: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = ranges.concat();
    let words = bytes.chunks(2).map(|pair| [pair[0], *pair.get(1).unwrap_or(&0)]);
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

fn pseudo_header(addresses: &[u8], protocol: u8, len: usize) -> Vec<u8> {
    [addresses, &[0, protocol], &(len as u16).to_be_bytes()].concat()
}

/// IPv4 from 10.77.0.1 to `to`; the checksum field at `at` of the upper layer holds what a kernel
/// leaves there.
fn packet(protocol: u8, to: [u8; 4], upper: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1];
    bytes.extend(to);
    let len = (20 + upper.len()) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    let checksum = !sum(&[&bytes]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    let partial = sum(&[&pseudo_header(&bytes[12..20], protocol, upper.len())]);
    bytes.extend(upper);
    bytes[20 + at..22 + at].copy_from_slice(&partial.to_be_bytes());
    bytes
}

fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut upper = vec![0; TCP_HEADER];
    (upper[12], upper[13]) = (5 << 4, 0x10);
    upper.extend(payload);
    packet(6, [10, 77, 0, 2], &upper, 16)
}

fn keep(arena: &mut Arena, vnet: VnetHeader, bytes: &[u8], framed: bool) -> Vec<Segment> {
    let read = if framed { frame::parse(vnet, bytes) } else { Layout::parse(vnet, bytes) };
    let layout = read.expect("it makes sense");
    arena.room().expect("the arena has room")[..bytes.len()].copy_from_slice(bytes);
    let of = arena.keep(bytes.len(), framed, layout);
    (0..layout.segments).map(|index| Segment::new(of, index, &layout)).collect()
}

/// What a device would be given for each of the segments; nothing for what it is spared.
fn written(arena: &mut Arena, segments: Vec<Segment>, framed: bool) -> Vec<Vec<u8>> {
    let mut run = Run::to(framed);
    let mut all = Vec::new();
    for segment in segments {
        run.push(arena, segment).expect("an empty run takes any packet");
        let whole = run.emit(arena, |parts| parts.iter().flat_map(|p| p.to_vec()).collect());
        run.clear(arena);
        all.extend(whole.map(|whole: Vec<u8>| {
            let (vnet, rest) = whole.split_at(VNET_HEADER);
            assert!(!framed || vnet == [0; VNET_HEADER], "a frame leaves nothing to be done");
            rest.to_vec()
        }));
    }
    all
}

fn assert_sound(frame: &[u8], protocol: u8) {
    let packet = &frame[ETHERNET_HEADER..];
    let upper = &packet[20..];
    assert_eq!(sum(&[&packet[..20]]), 0xffff, "IPv4 header checksum");
    let pseudo = pseudo_header(&packet[12..20], protocol, upper.len());
    assert_eq!(sum(&[&pseudo, upper]), 0xffff, "checksum of the upper layer");
}

#[test]
fn a_super_packet_leaves_as_frames_with_all_checksums_done() {
    let payload: Vec<u8> = (0..2_501u32).map(|n| (n * 7) as u8).collect();
    let mut arena = Arena::new(1 << 20);
    let mut segments = keep(&mut arena, PARTIAL, &tcp(&payload), false);
    segments[1].octet = 3;
    let frames = written(&mut arena, segments, true);
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [1_054, 1_054, 555]);
    for frame in &frames {
        assert_eq!(frame[..14], [2, 0x77, 10, 77, 0, 2, 2, 0x77, 10, 77, 0, 1, 8, 0]);
        assert_sound(frame, 6);
    }
    assert_eq!(frames[1][ETHERNET_HEADER + 1], 3, "the mark of the queue is in its frame");
    let sent: Vec<u8> = frames.iter().flat_map(|frame| frame[54..].to_vec()).collect();
    assert_eq!(sent, payload);
}

#[test]
fn two_packets_of_one_flow_are_not_joined_on_the_way_to_a_port() {
    let mut arena = Arena::new(1 << 20);
    let mut segments = keep(&mut arena, PARTIAL, &tcp(&[1; 2_000]), false);
    let mut run = Run::to(true);
    run.push(&arena, segments.remove(0)).expect("an empty run takes any packet");
    assert!(run.push(&arena, segments.remove(0)).is_err());
}

#[test]
fn a_frame_crosses_from_port_to_port_as_it_came() {
    let mut ethernet = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    ethernet.extend([0x88, 0xcc, 2, 7, 4]); // LLDP
    let mut arena = Arena::new(1 << 20);
    let segments = keep(&mut arena, VnetHeader::default(), &ethernet, true);
    assert_eq!(segments[0].size, 3, "a link counts what follows the Ethernet header");
    assert_eq!(written(&mut arena, segments, true), std::slice::from_ref(&ethernet));
    let segments = keep(&mut arena, VnetHeader::default(), &ethernet, true);
    assert!(written(&mut arena, segments, false).is_empty(), "a host's device is spared it");
}

#[test]
fn a_frame_reaches_a_packet_device_without_its_header() {
    let packet = tcp(&[9; 10]);
    let frame = [[2; 12].as_slice(), &[8, 0], &packet].concat();
    let mut arena = Arena::new(1 << 20);
    let mut segments = keep(&mut arena, VnetHeader::default(), &frame, true);
    assert_eq!(segments[0].size as usize, packet.len());
    segments[0].octet = 3;
    let mut marked = packet;
    set_octet(&mut marked, 3);
    assert_eq!(written(&mut arena, segments, false), [marked]);
}

#[test]
fn broadcast_and_multicast_have_their_own_addresses() {
    let receiver = |to| {
        let mut arena = Arena::new(1 << 20);
        let bytes = packet(17, to, &[0; 8], 6);
        let segments = keep(&mut arena, VnetHeader::default(), &bytes, false);
        written(&mut arena, segments, true)[0][..6].to_vec()
    };
    assert_eq!(receiver([255; 4]), [0xff; 6]);
    assert_eq!(receiver([239, 129, 3, 4]), [0x01, 0x00, 0x5e, 1, 3, 4]);
}

#[test]
fn what_is_no_frame_is_malformed() {
    for bytes in [&[0; 3][..], &[0; 14]] {
        assert_eq!(frame::parse(VnetHeader::default(), bytes), Err(Malformed));
    }
    assert_eq!(frame::parse(PARTIAL, &[0; 64]), Err(Malformed));
}

proptest! {
    #[test]
    fn udp_leaves_with_its_checksum_done(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let upper = [[0; 8].as_slice(), &payload].concat();
        let vnet = VnetHeader { flags: 1, csum_start: 20, csum_offset: 6, ..VnetHeader::default() };
        let mut arena = Arena::new(1 << 20);
        let segments = keep(&mut arena, vnet, &packet(17, [10, 77, 0, 2], &upper, 6), false);
        assert_sound(&written(&mut arena, segments, true)[0], 17);
    }
}
