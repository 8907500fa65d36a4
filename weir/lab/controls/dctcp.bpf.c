// DCTCP (RFC 8257) as a congestion control of the kernel, for kernels without one.
//
// Section 3.2: the receiver echoes each change of CE at once. Section 3.3: alpha is a moving average
// of the marked share over windows of data, with gain 1/16, and begins at 1; a window with marks
// takes alpha / 2 of the congestion window. Section 3.5: a loss takes half. Growth is Reno's. Where
// the peer does not agree to ECN, the connection becomes a Reno one (section 3.4).
// Departures: alpha has 10 binary places and the shares are of segments, as the kernel counts them.
//
// It includes no header: what it needs of the kernel's structures is below, and their layout is put
// right when it is loaded. The licence is what the kernel asks of programs that call its functions.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define OF_KERNEL __attribute__((preserve_access_index))

char licence[] SECTION("license") = "Dual MIT/GPL";

struct sock {
	struct {
		volatile u8 skc_state;
	} __sk_common;
} OF_KERNEL;

struct inet_connection_sock {
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
} OF_KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 rcv_nxt, snd_nxt, snd_una, snd_cwnd, snd_ssthresh, delivered, delivered_ce;
	u8 ecn_flags;
} OF_KERNEL;

// Members are found by their names; what is left out stays empty.
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, u32, u32);
	void (*set_state)(struct sock *, u8);
	void (*cwnd_event)(struct sock *, u32);
	void (*in_ack_event)(struct sock *, u32);
	u32 (*undo_cwnd)(struct sock *);
	void (*init)(struct sock *);
	u32 flags;
	char name[16];
};

enum {
	CONG_NEEDS_ECN = 2,
	ECN_OK = 1,
	ECN_ECHOES = 4, // TCP_ECN_DEMAND_CWR
	EVENT_LOSS = 3,
	EVENT_NOT_MARKED = 4,
	EVENT_MARKED = 5,
	STATE_RECOVERY = 3,
	CLOSED = 7,
	LISTENING = 10,
	ACK_TIMER = 2,
	ACK_NOW = 16,
	SOL_TCP = 6,
	TCP_CONGESTION = 13,
};

static long (*const send_ack)(struct tcp_sock *, u32 acknowledged) = (void *)116;
static long (*const set_option)(struct tcp_sock *, int level, int name, void *value, int bytes) =
	(void *)49;
extern void tcp_reno_cong_avoid(struct sock *, u32 acknowledged, u32 segments) SECTION(".ksyms");

#define ALPHA_SHIFT 10
#define GAIN_SHIFT 4
#define ALPHA_ONE (1U << ALPHA_SHIFT)
#define LEAST_WINDOW 2U

// What a connection remembers, in the place that the kernel gives to its congestion control.
struct dctcp {
	u32 alpha;
	u32 window_until;
	u32 delivered_before;
	u32 marked_before;
	u32 window_before_fall;
	u32 arrived_until;
	u8 arrives_marked;
};

static struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static struct dctcp *dctcp(struct tcp_sock *tp)
{
	return (struct dctcp *)tp->inet_conn.icsk_ca_priv;
}

static u32 at_least(u32 least, u32 value)
{
	return value > least ? value : least;
}

static void begin_window(struct tcp_sock *tp, struct dctcp *ca)
{
	ca->window_until = tp->snd_nxt;
	ca->delivered_before = tp->delivered;
	ca->marked_before = tp->delivered_ce;
}

SECTION("struct_ops/init") int dctcp_init(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *ca = dctcp(tp);
	u8 state = sk->__sk_common.skc_state;
	char reno[] = "reno";

	ca->alpha = ALPHA_ONE;
	ca->window_before_fall = 0;
	ca->arrived_until = tp->rcv_nxt;
	ca->arrives_marked = 0;
	begin_window(tp, ca);
	if (state != CLOSED && state != LISTENING && !(tp->ecn_flags & ECN_OK))
		set_option(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
	return 0;
}

SECTION("struct_ops/in_ack_event") int dctcp_acknowledged(u64 *args)
{
	struct tcp_sock *tp = tcp((struct sock *)args[0]);
	struct dctcp *ca = dctcp(tp);

	if ((s32)(tp->snd_una - ca->window_until) < 0)
		return 0;
	u32 delivered = at_least(1, tp->delivered - ca->delivered_before);
	u64 marked = tp->delivered_ce - ca->marked_before;
	u32 share = (marked << (ALPHA_SHIFT - GAIN_SHIFT)) / delivered;
	u32 alpha = ca->alpha;
	u32 fall = alpha >> GAIN_SHIFT;
	// Shifted alone it would stay at fifteen; a kernel's own gives up the rest at once.
	alpha = (fall ? alpha - fall : 0) + share;
	ca->alpha = alpha < ALPHA_ONE ? alpha : ALPHA_ONE;
	begin_window(tp, ca);
	return 0;
}

SECTION("struct_ops/ssthresh") int dctcp_fallen(u64 *args)
{
	struct tcp_sock *tp = tcp((struct sock *)args[0]);
	struct dctcp *ca = dctcp(tp);
	u32 window = tp->snd_cwnd;

	ca->window_before_fall = window;
	return at_least(LEAST_WINDOW, window - (u32)(((u64)window * ca->alpha) >> (ALPHA_SHIFT + 1)));
}

static void halve(struct tcp_sock *tp)
{
	u32 window = tp->snd_cwnd;

	dctcp(tp)->window_before_fall = window;
	tp->snd_ssthresh = at_least(LEAST_WINDOW, window / 2);
}

SECTION("struct_ops/set_state") int dctcp_state(u64 *args)
{
	if ((u8)args[1] == STATE_RECOVERY)
		halve(tcp((struct sock *)args[0]));
	return 0;
}

static void echo(struct tcp_sock *tp, u8 marked)
{
	if (marked)
		tp->ecn_flags |= ECN_ECHOES;
	else
		tp->ecn_flags &= ~ECN_ECHOES;
}

// Whether what arrives is marked, told before it is counted as received.
static void arrived(struct tcp_sock *tp, u8 marked)
{
	struct dctcp *ca = dctcp(tp);

	if (ca->arrives_marked != marked) {
		// What waits for its acknowledgement was of the other kind, and must be told apart.
		if (tp->inet_conn.icsk_ack.pending & ACK_TIMER) {
			echo(tp, ca->arrives_marked);
			send_ack(tp, ca->arrived_until);
		}
		tp->inet_conn.icsk_ack.pending |= ACK_NOW;
	}
	ca->arrived_until = tp->rcv_nxt;
	ca->arrives_marked = marked;
	echo(tp, marked);
}

SECTION("struct_ops/cwnd_event") int dctcp_event(u64 *args)
{
	struct tcp_sock *tp = tcp((struct sock *)args[0]);
	u32 event = args[1];

	if (event == EVENT_MARKED || event == EVENT_NOT_MARKED)
		arrived(tp, event == EVENT_MARKED);
	else if (event == EVENT_LOSS)
		halve(tp);
	return 0;
}

SECTION("struct_ops/undo_cwnd") int dctcp_undone(u64 *args)
{
	struct tcp_sock *tp = tcp((struct sock *)args[0]);

	return at_least(tp->snd_cwnd, dctcp(tp)->window_before_fall);
}

SECTION("struct_ops/cong_avoid") int dctcp_grow(u64 *args)
{
	tcp_reno_cong_avoid((struct sock *)args[0], (u32)args[1], (u32)args[2]);
	return 0;
}

SECTION(".struct_ops") struct tcp_congestion_ops control = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_fallen,
	.cong_avoid = (void *)dctcp_grow,
	.set_state = (void *)dctcp_state,
	.cwnd_event = (void *)dctcp_event,
	.in_ack_event = (void *)dctcp_acknowledged,
	.undo_cwnd = (void *)dctcp_undone,
	.flags = CONG_NEEDS_ECN,
	.name = NAME,
};
