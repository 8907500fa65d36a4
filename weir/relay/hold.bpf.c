// Holds acknowledgements back: what goes out to a relay's client acknowledges what is released, and
// nothing beyond (work 003, section 2.7 of its specification).
//
// It is run for each packet on its way out of an interface (tc, clsact, direct action). Packets of
// connections that a relay accepts carry its mark, HELD. A SYN-ACK begins an entry: nothing is
// released. From then on:
//
//   a number beyond what is released becomes what is released; the window grows by as much, so that
//   its right edge stays where the kernel has put it; what is said of data beyond (SACK) is left out;
//   where a hole that the client knows of is repaired, the kernel's number leaps across what it has
//   told selectively. Nothing inside a leap is acknowledged before all of it is released: a client
//   whose acknowledgements walked there would take its retransmission to have come before data that
//   it had sent earlier, and these for lost (RACK, RFC 8985), or what it was told selectively for
//   withdrawn (RFC 2018, section 8);
//   an acknowledgement alone that would then say nothing new is dropped: it would be counted as a
//   duplicate, and have the client send again what has arrived;
//   a packet with the mark RELEASING is the relay's own: its number is the offset up to which is
//   released now. It gets the sequence number, the window and the timestamps of the connection, and
//   where it brings the client to a hole, what has come beyond that;
//   a packet of the relay's that belongs to no entry is dropped: what is not known is not told;
//   what asks a client whether it is there (keepalive) passes: it has an old sequence number, by
//   which nobody takes it for a duplicate;
//   what a router passes on between the same ends is none of this, whoever sends it: it passes, and
//   nothing is noted of it. The first packet of a connection that goes by itself has the entry
//   forgotten, unless the relay's own is there: then somebody has made it up.
//
// Whoever sends a SYN has an entry, so entries of connections that begin must make room for others,
// and a flood may do away with all of them. The relay moves those that it accepts to where nothing
// is forgotten, and back when they are closed: a flood takes away neither who is there, however
// long it says nothing, nor more memory than this.
//
// It includes no header: the begin of the kernel's structure and the numbers of its functions never
// change (linux/bpf.h).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline

char licence[] SECTION("license") = "Apache-2.0";

// The begin of struct __sk_buff.
struct packet {
	u32 bytes, type, mark, queue, protocol, vlan[3], priority;
	u32 came_by; // an interface, of what is passed on; 0 of what is sent from here
};

// That of struct bpf_sock.
struct sock {
	u32 device, family, type, protocol, mark, priority, source4, source6[4], source_port;
	u32 destination_port, destination4, destination6[4], state;
};

enum {
	PASS = -1, // to whatever other filters there are
	DROP = 2,
	HASH = 1,
	LRU_HASH = 9,
	NOT_ALLOCATED_BEFORE = 1,
	PASSING = 131072,
	KEPT = 65536, // more than there are flows
	FROM_NETWORK_HEADER = 1,
	TCP = 6,
	FIN = 1,
	SYN = 2,
	RST = 4,
	ACK = 16,
	OPTION_END = 0,
	OPTION_NOTHING = 1,
	OPTION_SCALE = 3,
	OPTION_SACK = 5,
	OPTION_TIMES = 8,
	OPTIONS = 12, // that are looked at
	BLOCKS = 3,   // of an option SACK, for which there is room beside timestamps
	SCALE_MOST = 14,
	LISTENS = 10,
	THIS_NETWORK = -1,
	IPV4 = 0x0800,
	IPV6 = 0x86dd,
};

static void *(*const entry_of)(void *map, const void *key) = (void *)1;
static long (*const put)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const forget)(void *map, const void *key) = (void *)3;
static long (*const store)(struct packet *, u32 at, const void *from, u32 bytes, u64 flags) =
	(void *)9;
static long (*const mend_checksum)(struct packet *, u32 at, u64 before, u64 now, u64 bytes) =
	(void *)11;
static long (*const load)(const struct packet *, u32 at, void *into, u32 bytes) = (void *)26;
static long (*const load_from)(const struct packet *, u32 at, void *into, u32 bytes, u32 from) =
	(void *)68;

static struct sock *(*const socket_of)(struct packet *, const void *ends, u32 bytes, u64 network,
				       u64 flags) = (void *)84;
static long (*const let_go)(struct sock *) = (void *)86;

// A connection as its packets to the client call it; IPv4 as ::ffff:0:0/96.
struct key {
	u32 source[4], destination[4];
	u16 source_port, destination_port;
};

// Numbers are the host's, timestamps as they are sent.
struct connection {
	u32 base;         // the number that acknowledges nothing but the SYN
	u32 released;
	u32 acknowledged; // the furthest that the client was sent
	u32 edge;         // the right edge of the window, as the kernel has promised it
	u32 told_edge;    // and as the client was sent it
	u32 next;         // behind all that was sent to the client
	u32 time, echo;
	u32 scale;
	u32 has_times;
	u32 made;        // the furthest that the kernel would have acknowledged
	u32 told_beyond; // the end of what the client was told selectively, or that
	u32 leap_from, leap_to;
	u32 blocks; // of what has come beyond `made`, as they are sent
	u32 beyond[8];
};

// Connections that begin, or are over.
struct {
	int (*type)[LRU_HASH];
	int (*max_entries)[PASSING];
	struct key *key;
	struct connection *value;
} passing SECTION(".maps");

// Those that the relay has accepted.
struct {
	int (*type)[HASH];
	int (*max_entries)[KEPT];
	int (*map_flags)[NOT_ALLOCATED_BEFORE];
	struct key *key;
	struct connection *value;
} kept SECTION(".maps");

struct tcp {
	u16 source, destination;
	u32 sequence, acknowledgement;
	u8 offset, flags;
	u16 window, checksum, urgent;
};

// What of the options matters here; places count from the begin of the TCP header.
struct options {
	u32 scale, has_times, time, echo, sack_at, sack_bytes;
};

INLINE int is_after(u32 one, u32 other)
{
	return (s32)(one - other) > 0;
}

// Where the network header begins: behind an Ethernet header, none, or one with a VLAN.
INLINE int network_header(struct packet *packet, const u32 *begin)
{
	u32 seen[5];

	if (!load(packet, 14, seen, 20) && seen[0] == begin[0] && seen[1] == begin[1] &&
	    seen[2] == begin[2] && seen[3] == begin[3] && seen[4] == begin[4])
		return 14;
	if (!load(packet, 0, seen, 20) && seen[0] == begin[0] && seen[1] == begin[1] &&
	    seen[2] == begin[2] && seen[3] == begin[3] && seen[4] == begin[4])
		return 0;
	if (!load(packet, 18, seen, 20) && seen[0] == begin[0] && seen[1] == begin[1] &&
	    seen[2] == begin[2] && seen[3] == begin[3] && seen[4] == begin[4])
		return 18;
	return -1;
}

// The place of the TCP header, and the connection's addresses; negative: there is none.
INLINE int tcp_header(struct packet *packet, struct key *key)
{
	u32 ip[10] = {};
	u8 *bytes = (u8 *)ip;
	int at;

	if (load_from(packet, 0, ip, 20, FROM_NETWORK_HEADER))
		return -1;
	at = network_header(packet, ip);
	if (at < 0)
		return -1;
	if (packet->protocol == __builtin_bswap16(IPV4)) {
		// The rest of a fragmented packet has no header of TCP.
		if (bytes[9] != TCP || (bytes[6] & 0x1f) || bytes[7])
			return -1;
		key->source[2] = key->destination[2] = __builtin_bswap32(0xffff);
		key->source[3] = ip[3];
		key->destination[3] = ip[4];
		return at + (bytes[0] & 15) * 4;
	}
	if (packet->protocol != __builtin_bswap16(IPV6) || bytes[6] != TCP)
		return -1;
	if (load_from(packet, 8, key->source, 32, FROM_NETWORK_HEADER))
		return -1;
	return at + 40;
}

// Whether the relay has a connection between these ends, as the kernel knows it.
INLINE int is_there(struct packet *packet, const struct key *key)
{
	// struct bpf_sock_tuple: whence its packets come, where they go, and both ports.
	u32 ends[9] = {};
	u32 ports = key->destination_port | (u32)key->source_port << 16;
	struct sock *found;
	int is;

	if (packet->protocol == __builtin_bswap16(IPV4)) {
		ends[0] = key->destination[3];
		ends[1] = key->source[3];
		ends[2] = ports;
		found = socket_of(packet, ends, 12, THIS_NETWORK, 0);
	} else {
		for (int i = 0; i < 4; i++) {
			ends[i] = key->destination[i];
			ends[4 + i] = key->source[i];
		}
		ends[8] = ports;
		found = socket_of(packet, ends, 36, THIS_NETWORK, 0);
	}
	if (!found)
		return 0;
	is = found->mark == HELD && found->state != LISTENS;
	let_go(found);
	return is;
}

INLINE void read_options(struct packet *packet, u32 at, u32 end, struct options *options)
{
	u32 place = 20;

	for (int i = 0; i < OPTIONS; i++) {
		u8 option[2], scale;

		if (place >= end || load(packet, at + place, option, 1) || option[0] == OPTION_END)
			break;
		if (option[0] == OPTION_NOTHING) {
			place++;
			continue;
		}
		if (place + 1 >= end || load(packet, at + place, option, 2) || option[1] < 2)
			break;
		if (option[0] == OPTION_SCALE) {
			if (!load(packet, at + place + 2, &scale, 1))
				options->scale = scale < SCALE_MOST ? scale : SCALE_MOST;
		} else if (option[0] == OPTION_SACK) {
			options->sack_at = place;
			options->sack_bytes = option[1];
		} else if (option[0] == OPTION_TIMES) {
			options->has_times = !load(packet, at + place + 2, &options->time, 4) &&
					     !load(packet, at + place + 6, &options->echo, 4);
		}
		place += option[1];
	}
}

// Changes a part of the TCP header at `at`, and its checksum.
INLINE int change_word(struct packet *packet, u32 at, u32 place, u32 before, u32 now)
{
	if (mend_checksum(packet, at + 16, before, now, 4))
		return -1;
	return store(packet, at + place, &now, 4, 0);
}

INLINE int change_half(struct packet *packet, u32 at, u32 place, u16 before, u16 now)
{
	if (mend_checksum(packet, at + 16, before, now, 2))
		return -1;
	return store(packet, at + place, &now, 2, 0);
}

// The window that keeps an edge where it is, when so much is acknowledged.
INLINE u32 window_until(const struct connection *connection, u32 told, u32 edge)
{
	s32 left = edge - told;
	u32 window;

	if (left <= 0)
		return 0;
	window = (u32)left >> (connection->scale & 15);
	return window < 65535 ? window : 65535;
}

INLINE void note_told(struct connection *connection, u32 acknowledged, u32 edge)
{
	if (is_after(acknowledged, connection->acknowledged))
		connection->acknowledged = acknowledged;
	if (is_after(edge, connection->told_edge))
		connection->told_edge = edge;
}

// What is released, unless that is inside a leap.
INLINE u32 may_tell(struct connection *of)
{
	if (is_after(of->leap_to, of->released))
		return of->leap_from;
	// Numbers go round: a leap that is over must not come again.
	of->leap_from = of->leap_to = of->released;
	return of->released;
}

// The client is told what has come beyond the kernel's number.
INLINE void note_told_beyond(struct connection *of)
{
	for (u32 i = 0; i < BLOCKS; i++) {
		u32 end = __builtin_bswap32(of->beyond[2 * i + 1]);

		if (i < of->blocks && is_after(end, of->told_beyond))
			of->told_beyond = end;
	}
}

// What has come beyond the kernel's number. The first block may be of what has come twice (RFC
// 2883), which is said once.
INLINE void note_beyond(struct packet *packet, u32 at, const struct options *options,
			struct connection *of)
{
	u32 blocks = 0;

	for (u32 i = 0; i < BLOCKS; i++) {
		u32 block[4] = {};
		u32 place = at + options->sack_at + 2 + 8 * i;
		int has_next = 18 + 8 * i <= options->sack_bytes;

		if (10 + 8 * i > options->sack_bytes || load(packet, place, block, 8))
			break;
		if (has_next && load(packet, place + 8, block + 2, 8))
			break;
		if (!is_after(__builtin_bswap32(block[0]), of->made))
			continue;
		if (!i && has_next &&
		    !is_after(__builtin_bswap32(block[2]), __builtin_bswap32(block[0])) &&
		    !is_after(__builtin_bswap32(block[1]), __builtin_bswap32(block[3])))
			continue;
		of->beyond[(2 * blocks) & 6] = block[0];
		of->beyond[((2 * blocks) & 6) + 1] = block[1];
		blocks++;
	}
	of->blocks = blocks;
}

// The kernel would say this: where its number leaps across what the client was told, and what is
// beyond it.
INLINE void note_made(struct packet *packet, u32 at, u32 acknowledged,
		      const struct options *options, struct connection *of)
{
	if (is_after(acknowledged, of->made)) {
		if (is_after(of->told_beyond, of->made)) {
			may_tell(of);
			if (!is_after(of->leap_to, of->released))
				of->leap_from = of->made;
			of->leap_to = acknowledged;
		}
		of->made = acknowledged;
		if (is_after(acknowledged, of->told_beyond))
			of->told_beyond = acknowledged;
	}
	if (acknowledged == of->made)
		note_beyond(packet, at, options, of);
}

// Puts what has come beyond the kernel's number into the room that the relay has left for it.
INLINE int put_beyond(struct packet *packet, u32 at, struct connection *of)
{
	u32 nothing = 0x01010101;
	u32 head = __builtin_bswap32(0x01010502 + 8 * of->blocks);

	if (!of->blocks)
		return 0;
	if (change_word(packet, at, 32, nothing, head))
		return -1;
	for (u32 i = 0; i < BLOCKS; i++) {
		if (i >= of->blocks)
			break;
		if (change_word(packet, at, 36 + 8 * i, nothing, of->beyond[2 * i]) ||
		    change_word(packet, at, 40 + 8 * i, nothing, of->beyond[2 * i + 1]))
			return -1;
	}
	note_told_beyond(of);
	return 0;
}

// The relay's own: releases more, and becomes an acknowledgement of the connection.
INLINE int release(struct packet *packet, u32 at, const struct tcp *tcp, struct connection *of)
{
	u32 released = of->base + __builtin_bswap32(tcp->acknowledgement);
	u32 told, window, nothing = 0x01010101, times = __builtin_bswap32(0x0101080a);

	if (is_after(released, of->released))
		of->released = released;
	told = may_tell(of);
	if (told != of->released)
		return DROP;
	window = window_until(of, told, of->edge);
	if (change_word(packet, at, 4, tcp->sequence, __builtin_bswap32(of->next)) ||
	    change_word(packet, at, 8, tcp->acknowledgement, __builtin_bswap32(told)) ||
	    change_half(packet, at, 14, tcp->window, __builtin_bswap16(window)))
		return DROP;
	if (!of->has_times && change_word(packet, at, 20, times, nothing))
		return DROP;
	if (change_word(packet, at, 24, 0, of->has_times ? of->time : nothing) ||
	    change_word(packet, at, 28, 0, of->has_times ? of->echo : nothing))
		return DROP;
	if (told == of->made && put_beyond(packet, at, of))
		return DROP;
	note_told(of, told, told + (window << (of->scale & 15)));
	return PASS;
}

// What was accepted begins with nothing released but the SYN.
INLINE int begin(struct packet *packet, u32 at, const struct tcp *tcp, const struct key *key)
{
	struct options options = {};
	struct connection of = {};

	read_options(packet, at, (tcp->offset >> 4) * 4, &options);
	of.base = of.released = of.acknowledged = __builtin_bswap32(tcp->acknowledgement);
	of.edge = of.told_edge = of.base + __builtin_bswap16(tcp->window);
	of.made = of.told_beyond = of.leap_from = of.leap_to = of.base;
	of.next = __builtin_bswap32(tcp->sequence) + 1;
	of.scale = options.scale;
	of.has_times = options.has_times;
	of.time = options.time;
	of.echo = options.echo;
	forget(&kept, key); // the one before, between the same ends
	return put(&passing, key, &of, 0) ? DROP : PASS;
}

// Leaves out what is said of data beyond what is released.
INLINE int blank_sack(struct packet *packet, u32 at, const struct options *options)
{
	for (u32 i = 0; i < 17; i++) {
		u16 before;

		if (2 * i >= options->sack_bytes)
			break;
		if (load(packet, at + options->sack_at + 2 * i, &before, 2) ||
		    change_half(packet, at, options->sack_at + 2 * i, before, 0x0101))
			return -1;
	}
	return 0;
}

// A packet of the kernel's that acknowledges more than may be told.
INLINE int hold_back(struct packet *packet, u32 at, const struct tcp *tcp,
		     struct connection *of, const struct options *options, u32 edge, int is_alone)
{
	u32 told = may_tell(of);
	u32 window = window_until(of, told, edge);
	u32 told_edge = told + (window << (of->scale & 15));
	int is_asking = is_after(of->next, __builtin_bswap32(tcp->sequence));

	if (is_alone && !is_asking && !is_after(told, of->acknowledged) &&
	    !is_after(told_edge, of->told_edge))
		return DROP;
	// The kernel aligns it; what is not could not be mended by halves.
	if ((options->sack_at & 1) || (options->sack_at && blank_sack(packet, at, options)))
		return DROP;
	if (change_word(packet, at, 8, tcp->acknowledgement, __builtin_bswap32(told)) ||
	    change_half(packet, at, 14, tcp->window, __builtin_bswap16(window)))
		return DROP;
	note_told(of, told, told_edge);
	return PASS;
}

// A packet of the kernel's, of a connection that is known.
INLINE int pass_on(struct packet *packet, u32 at, const struct tcp *tcp, struct connection *of)
{
	u32 header = (tcp->offset >> 4) * 4;
	u32 acknowledged = __builtin_bswap32(tcp->acknowledgement);
	u32 data = packet->bytes - at - header;
	u32 end = __builtin_bswap32(tcp->sequence) + data + (tcp->flags & FIN);
	u32 edge = acknowledged + ((u32)__builtin_bswap16(tcp->window) << (of->scale & 15));
	struct options options = {};

	if (!(tcp->flags & ACK))
		return PASS;
	if (tcp->flags & RST) {
		if (is_after(acknowledged, of->released) &&
		    change_word(packet, at, 8, tcp->acknowledgement,
				__builtin_bswap32(of->released)))
			return DROP;
		return PASS;
	}
	read_options(packet, at, header, &options);
	if (is_after(end, of->next))
		of->next = end;
	if (is_after(edge, of->edge))
		of->edge = edge;
	if (options.has_times) {
		of->time = options.time;
		of->echo = options.echo;
	}
	note_made(packet, at, acknowledged, &options, of);
	if (is_after(acknowledged, may_tell(of)))
		return hold_back(packet, at, tcp, of, &options, edge,
				 !data && !(tcp->flags & FIN));
	note_told(of, acknowledged, edge);
	if (acknowledged == of->made)
		note_told_beyond(of);
	return PASS;
}

SECTION("tc") int hold(struct packet *packet)
{
	int is_ours = packet->mark == HELD || packet->mark == RELEASING;
	struct key key = {};
	struct tcp tcp;
	struct connection *of;
	int at = tcp_header(packet, &key);

	if (at < 0 || load(packet, at, &tcp, sizeof(tcp)))
		return is_ours ? DROP : PASS;
	key.source_port = tcp.source;
	key.destination_port = tcp.destination;
	of = entry_of(&kept, &key);
	if (!of)
		of = entry_of(&passing, &key);
	if (tcp.flags & SYN) {
		if (packet->mark != HELD) {
			// The port is somebody else's now.
			if (of && !(packet->came_by && is_there(packet, &key))) {
				forget(&kept, &key);
				forget(&passing, &key);
			}
			return PASS;
		}
		// It may be sent again, when much was acknowledged already.
		if (of && of->base == __builtin_bswap32(tcp.acknowledgement))
			return PASS;
		return begin(packet, at, &tcp, &key);
	}
	if (!of)
		return is_ours && !(tcp.flags & RST) ? DROP : PASS;
	if (packet->came_by && !is_ours)
		return PASS;
	if (packet->mark == RELEASING)
		return release(packet, at, &tcp, of);
	return pass_on(packet, at, &tcp, of);
}
