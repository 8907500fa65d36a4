//! Cutting and joining against a plain reference: every byte of every packet, computed anew.

use proptest::prelude::*;
use weir_queue::{Ecn, Packet};

use crate::arena::Arena;
use crate::coalesce::Run;
use crate::headers::{checksum_update, set_octet};
use crate::offload::{CWR, FIN, Layout, PSH, VNET_HEADER, VnetHeader};
use crate::segment::Segment;

const ACK: u8 = 0x10;
const GSO_ECN: u8 = 0x80;

/// A TCP packet as a kernel would build it.
#[derive(Clone, Debug)]
struct Tcp {
    v6: bool,
    port: u16,
    sequence: u32,
    identification: u16,
    flags: u8,
    octet: u8,
    options: usize,
    gso_size: u16,
    payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            v6: false,
            port: 5_001,
            sequence: 1_000,
            identification: 7,
            flags: ACK,
            octet: 0,
            options: 12,
            gso_size: 1_448,
            payload: vec![0; 1_448],
        }
    }
}

impl Tcp {
    fn ip_len(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    fn header_len(&self) -> usize {
        self.ip_len() + 20 + self.options
    }

    fn is_gso(&self) -> bool {
        self.payload.len() > usize::from(self.gso_size)
    }

    fn vnet(&self) -> VnetHeader {
        let kind = if self.v6 { 4 } else { 1 };
        let ecn = if self.flags & CWR != 0 { GSO_ECN } else { 0 };
        VnetHeader {
            flags: 1,
            gso_type: if self.is_gso() { kind | ecn } else { 0 },
            header_len: self.header_len() as u16,
            gso_size: if self.is_gso() { self.gso_size } else { 0 },
            csum_start: self.ip_len() as u16,
            csum_offset: 16,
        }
    }

    /// The bytes, every length and checksum from scratch; the TCP checksum is the partial sum that
    /// the kernel leaves: the pseudo-header's, uncomplemented (Linux, checksum-offloads.rst).
    fn bytes(&self) -> Vec<u8> {
        let tcp_len = 20 + self.options + self.payload.len();
        let mut bytes = if self.v6 { self.v6_header(tcp_len) } else { self.v4_header(tcp_len) };
        let addresses = if self.v6 { 8..40 } else { 12..20 };
        let mut pseudo = bytes[addresses].to_vec();
        pseudo.extend([0, 6]);
        pseudo.extend((tcp_len as u16).to_be_bytes());
        let partial = ones_sum(&pseudo);
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(80u16.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(99u32.to_be_bytes());
        bytes.extend([((20 + self.options) / 4 * 16) as u8, self.flags, 1, 2]);
        bytes.extend(partial.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(vec![1; self.options]);
        bytes.extend(&self.payload);
        bytes
    }

    fn v4_header(&self, tcp_len: usize) -> Vec<u8> {
        let mut header = vec![0x45, self.octet];
        header.extend((20 + tcp_len as u16).to_be_bytes());
        header.extend(self.identification.to_be_bytes());
        header.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let checksum = !ones_sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn v6_header(&self, tcp_len: usize) -> Vec<u8> {
        let first = 0x6000_0000 | u32::from(self.octet) << 20 | 0xabcde;
        let mut header = first.to_be_bytes().to_vec();
        header.extend((tcp_len as u16).to_be_bytes());
        header.extend([6, 64]);
        header.extend((0..32).map(|n| n as u8));
        header
    }

    /// What a link must see of it (Linux, `tcp_gso_segment` and `inet_gso_segment` in words).
    fn cut(&self) -> Vec<Self> {
        let chunks: Vec<&[u8]> = self.payload.chunks(self.gso_size.max(1).into()).collect();
        let last = chunks.len().saturating_sub(1);
        let piece = |(index, chunk): (usize, &&[u8])| Self {
            sequence: self.sequence.wrapping_add(index as u32 * u32::from(self.gso_size)),
            identification: self.identification.wrapping_add(index as u16),
            flags: self.flags
                & !(if index < last { PSH | FIN } else { 0 })
                & !(if index > 0 { CWR } else { 0 }),
            payload: chunk.to_vec(),
            ..self.clone()
        };
        if chunks.is_empty() {
            vec![self.clone()]
        } else {
            chunks.iter().enumerate().map(piece).collect()
        }
    }
}

/// The one's complement sum of RFC 1071, byte pairs at a time.
fn ones_sum(bytes: &[u8]) -> u16 {
    let sum = bytes.chunks(2).fold(0u32, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))
    });
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

fn keep(arena: &mut Arena, vnet: VnetHeader, bytes: &[u8]) -> Vec<Segment> {
    let Ok(layout) = Layout::parse(vnet, bytes) else { return Vec::new() };
    arena.room().expect("the arena has room")[..bytes.len()].copy_from_slice(bytes);
    let of = arena.keep(bytes.len(), false, layout);
    (0..layout.segments).map(|index| Segment::new(of, index, &layout)).collect()
}

fn emit(run: &mut Run, arena: &mut Arena) -> (VnetHeader, Vec<u8>) {
    let all = run.emit(arena, |parts| parts.iter().flat_map(|p| p.to_vec()).collect::<Vec<u8>>());
    run.clear(arena);
    let all = all.expect("the run is not empty");
    let (vnet, packet) = all.split_first_chunk::<VNET_HEADER>().expect("a header comes first");
    (VnetHeader::parse(vnet), packet.to_vec())
}

/// Each segment written by itself: what the link carries.
fn alone(arena: &mut Arena, segments: Vec<Segment>) -> Vec<Vec<u8>> {
    let one = |segment| {
        let mut run = Run::default();
        run.push(arena, segment).expect("an empty run takes any packet");
        let (vnet, bytes) = emit(&mut run, arena);
        assert_eq!(vnet.gso_type, 0, "a packet by itself is not a super-packet");
        bytes
    };
    segments.into_iter().map(one).collect()
}

/// All segments, joined wherever they can be.
fn joined(arena: &mut Arena, segments: Vec<Segment>) -> Vec<(VnetHeader, Vec<u8>)> {
    let (mut run, mut written) = (Run::default(), Vec::new());
    for segment in segments {
        if let Err(segment) = run.push(arena, segment) {
            written.push(emit(&mut run, arena));
            run.push(arena, segment).expect("an empty run takes any packet");
        }
    }
    if !run.pieces().is_empty() {
        written.push(emit(&mut run, arena));
    }
    written
}

fn arena() -> Arena {
    Arena::new(16 << 20)
}

#[test]
fn rfc_1624_section_4_example() {
    assert_eq!(checksum_update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_super_packet_is_cut_into_the_packets_of_the_reference() {
    let payload: Vec<u8> = (0..3_000u32).map(|n| n as u8).collect();
    let tcp = Tcp { payload, flags: ACK | PSH | CWR, octet: 2, ..Tcp::default() };
    let mut arena = arena();
    let segments = keep(&mut arena, tcp.vnet(), &tcp.bytes());
    assert_eq!(segments.iter().map(|s| s.size().count()).collect::<Vec<_>>(), [1500, 1500, 156]);
    let cut = alone(&mut arena, segments);
    assert_eq!(cut, tcp.cut().iter().map(Tcp::bytes).collect::<Vec<_>>());
    // Written out once by hand: PSH on the last only, CWR on the first only.
    assert_eq!(
        cut.iter().map(|packet| packet[33]).collect::<Vec<_>>(),
        [ACK | CWR, ACK, ACK | PSH]
    );
}

#[test]
fn separate_packets_of_a_flow_leave_as_one() {
    let packet =
        |n: u32| Tcp { sequence: 1_000 + n * 1_448, identification: n as u16, ..Tcp::default() };
    let mut arena = arena();
    let segments = (0..10).flat_map(|n| {
        let tcp = packet(n);
        keep(&mut arena, tcp.vnet(), &tcp.bytes())
    });
    let segments = segments.collect();
    let written = joined(&mut arena, segments);
    let whole = Tcp { payload: vec![0; 14_480], ..packet(0) };
    assert_eq!(written, [(whole.vnet(), whole.bytes())]);
}

#[test]
fn what_does_not_follow_leaves_apart() {
    let first = Tcp::default();
    let next = Tcp { sequence: 2_448, identification: 8, ..Tcp::default() };
    let others = [
        Tcp { sequence: 2_449, ..next.clone() },
        Tcp { identification: 9, ..next.clone() },
        Tcp { port: 5_002, ..next.clone() },
        Tcp { octet: 3, ..next.clone() },
        Tcp { flags: ACK | 0x40, ..next.clone() },
        Tcp { flags: ACK | CWR, ..next.clone() },
        Tcp { options: 16, ..next.clone() },
        Tcp { payload: vec![0; 1_449], gso_size: 1_449, ..next.clone() },
        Tcp { payload: Vec::new(), ..next.clone() },
    ];
    let pair = |second: &Tcp| {
        let mut arena = arena();
        let mut segments = keep(&mut arena, first.vnet(), &first.bytes());
        segments.extend(keep(&mut arena, second.vnet(), &second.bytes()));
        joined(&mut arena, segments).len()
    };
    assert_eq!(pair(&next), 1);
    for (number, other) in others.iter().enumerate() {
        assert_eq!(pair(other), 2, "number {number} was joined");
    }
}

#[test]
fn a_mark_reaches_the_wire_with_a_right_checksum() {
    for tcp in [
        Tcp { octet: 1, payload: vec![5; 4_000], ..Tcp::default() },
        Tcp { octet: 1, payload: vec![5; 4_000], v6: true, ..Tcp::default() },
    ] {
        let mut arena = arena();
        let mut segments = keep(&mut arena, tcp.vnet(), &tcp.bytes());
        assert_eq!(segments[1].ecn(), Ecn::Ect1);
        segments[1].mark_ce();
        let mut expected = tcp.cut();
        expected[1].octet = 3;
        let written = joined(&mut arena, segments);
        assert_eq!(written.len(), 3, "a marked packet does not hide among unmarked ones");
        let bytes: Vec<_> = written.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes, expected.iter().map(Tcp::bytes).collect::<Vec<_>>());
    }
}

#[test]
fn a_mark_on_a_packet_that_is_not_tcp_is_set_in_place() {
    let udp = Tcp { octet: 2, ..Tcp::default() };
    let expected = Tcp { octet: 3, ..udp.clone() };
    let mut arena = arena();
    let plain = VnetHeader::default();
    let mut segments = keep(&mut arena, plain, &udp.bytes());
    segments[0].mark_ce();
    assert_eq!(alone(&mut arena, segments), [expected.bytes()]);
}

#[test]
fn headers_that_contradict_each_other_are_malformed() {
    let tcp = Tcp { payload: vec![0; 5_000], ..Tcp::default() };
    let (vnet, bytes) = (tcp.vnet(), tcp.bytes());
    assert!(Layout::parse(vnet, &bytes).is_ok());
    assert!(Layout::parse(VnetHeader { gso_size: 0, ..vnet }, &bytes).is_err());
    assert!(Layout::parse(VnetHeader { gso_type: 4, ..vnet }, &bytes).is_err());
    assert!(Layout::parse(VnetHeader { gso_type: 5, ..vnet }, &bytes).is_err());
    assert!(Layout::parse(VnetHeader { csum_start: 24, ..vnet }, &bytes).is_err());
    assert!(Layout::parse(VnetHeader { flags: 0, ..vnet }, &bytes).is_err());
    assert!(Layout::parse(vnet, &bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn the_arena_uses_its_memory_again_and_stops_at_its_ceiling() {
    let tcp = Tcp { payload: vec![0; 60_000], ..Tcp::default() };
    let mut arena = Arena::new(1 << 20);
    for _ in 0..1_000 {
        let segments = keep(&mut arena, tcp.vnet(), &tcp.bytes());
        segments.into_iter().for_each(|segment| arena.release(segment.of));
    }
    let mut held = Vec::new();
    while arena.room().is_some() {
        held.extend(keep(&mut arena, tcp.vnet(), &tcp.bytes()));
    }
    assert!((14..=17).contains(&(held.len() / 42)), "{} packets held", held.len());
    held.into_iter().for_each(|segment| arena.release(segment.of));
    assert!(arena.room().is_some());
}

fn packets() -> impl Strategy<Value = Tcp> {
    let flags = prop::sample::select(vec![ACK, ACK | PSH, ACK | FIN, ACK | CWR, ACK | 0x40, 0x02]);
    let shape = (any::<bool>(), 0usize..4, 1u16..3_000, 0usize..20_000);
    (shape, flags, 0u8..=255, any::<u32>(), any::<u16>()).prop_map(
        |((v6, words, gso_size, len), flags, octet, sequence, identification)| Tcp {
            v6,
            port: 5_001,
            sequence,
            identification,
            flags,
            octet,
            options: words * 4,
            gso_size,
            payload: (0..len).map(|n| (n ^ (n >> 8)) as u8).collect(),
        },
    )
}

/// Flows with a good chance that a packet follows the one before it.
fn flows() -> impl Strategy<Value = Vec<Tcp>> {
    prop::collection::vec((packets(), any::<[bool; 3]>()), 1..8).prop_map(|drawn| {
        let mut flow: Vec<Tcp> = Vec::new();
        for (mut packet, [follows, same_size, plain]) in drawn {
            if let (true, Some(last)) = (follows, flow.last()) {
                let cut = last.cut();
                let end = cut.last().expect("at least one piece");
                packet = Tcp {
                    sequence: end.sequence.wrapping_add(end.payload.len() as u32),
                    identification: end.identification.wrapping_add(1),
                    gso_size: if same_size { last.gso_size } else { packet.gso_size },
                    flags: if plain { ACK } else { packet.flags },
                    payload: packet.payload,
                    ..last.clone()
                };
            }
            flow.push(packet);
        }
        flow
    })
}

proptest! {
    #[test]
    fn cutting_agrees_with_the_reference(tcp in packets()) {
        let mut arena = arena();
        let segments = keep(&mut arena, tcp.vnet(), &tcp.bytes());
        let sizes: u64 = segments.iter().map(|s| s.size().count()).sum();
        let cut = alone(&mut arena, segments);
        prop_assert_eq!(cut.iter().map(Vec::len).sum::<usize>() as u64, sizes);
        prop_assert_eq!(cut, tcp.cut().iter().map(Tcp::bytes).collect::<Vec<_>>());
    }

    #[test]
    fn joining_changes_no_packet(flow in flows()) {
        let expected: Vec<_> = flow.iter().flat_map(Tcp::cut).map(|piece| piece.bytes()).collect();
        let (mut before, mut after) = (arena(), arena());
        let segments = flow.iter().flat_map(|tcp| keep(&mut before, tcp.vnet(), &tcp.bytes()));
        let segments = segments.collect();
        let mut cut_again = Vec::new();
        for (vnet, bytes) in joined(&mut before, segments) {
            let segments = keep(&mut after, vnet, &bytes);
            prop_assert!(!segments.is_empty(), "the kernel would refuse {:?}", vnet);
            cut_again.extend(alone(&mut after, segments));
        }
        prop_assert_eq!(cut_again, expected);
    }

    #[test]
    fn any_bytes_behind_any_header_are_carried_or_refused_and_do_not_panic(
        header: [u8; VNET_HEADER], packet in prop::collection::vec(any::<u8>(), 1..200), mark: bool,
    ) {
        let mut arena = arena();
        let mut segments = keep(&mut arena, VnetHeader::parse(&header), &packet);
        if mark {
            segments.iter_mut().for_each(Packet::mark_ce);
        }
        joined(&mut arena, segments);
    }

    #[test]
    fn a_damaged_packet_is_carried_or_refused_and_does_not_panic(
        tcp in packets(), at in 0usize..80, value: u8, cut_short in 0usize..80, in_header: bool,
    ) {
        let (mut header, mut bytes) = (tcp.vnet().emit(), tcp.bytes());
        if in_header {
            header[at % VNET_HEADER] = value;
        } else {
            let at = at.min(bytes.len() - 1);
            bytes[at] = value;
        }
        bytes.truncate((bytes.len() - cut_short.min(bytes.len())).max(1));
        let mut arena = arena();
        let segments = keep(&mut arena, VnetHeader::parse(&header), &bytes);
        joined(&mut arena, segments);
    }

    #[test]
    fn the_octet_is_written_with_a_right_checksum(octet: u8, new: u8, identification: u16) {
        let tcp = Tcp { octet, identification, ..Tcp::default() };
        let mut bytes = tcp.bytes();
        set_octet(&mut bytes, new);
        prop_assert_eq!(bytes[1], new);
        prop_assert_eq!(ones_sum(&bytes[..20]), 0xffff, "header checksum");
    }
}
