// A window of two segments from the first to the last, whatever happens: work 003's proxy sends so to
// clients in a wireless cell, so that nobody's packets fill its queue (003-spec section 4.2). A route's
// "cwnd lock 2" is no replacement: it does not bind the first connection to a destination.
//
// Losses are found and repaired as with every other control; the window stays.
//
// It includes no header, as dctcp.bpf.c beside it. The licence is what the kernel asks of programs
// that call its functions.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define OF_KERNEL __attribute__((preserve_access_index))

char licence[] SECTION("license") = "Dual MIT/GPL";

struct sock {
	int unused;
} OF_KERNEL;

struct rate_sample {
	int unused;
} OF_KERNEL;

struct tcp_sock {
	u32 snd_cwnd;
} OF_KERNEL;

// Members are found by their names; what is left out stays empty.
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *);
	u32 (*undo_cwnd)(struct sock *);
	void (*cong_control)(struct sock *, u32, int, const struct rate_sample *);
	void (*init)(struct sock *);
	char name[16];
};

#define WINDOW 2U

SECTION("struct_ops/init") int fixed_init(u64 *args)
{
	((struct tcp_sock *)args[0])->snd_cwnd = WINDOW;
	return 0;
}

SECTION("struct_ops/cong_control") int fixed_control(u64 *args)
{
	((struct tcp_sock *)args[0])->snd_cwnd = WINDOW;
	return 0;
}

SECTION("struct_ops/ssthresh") int fixed_threshold(u64 *args)
{
	return WINDOW;
}

SECTION("struct_ops/undo_cwnd") int fixed_undone(u64 *args)
{
	return WINDOW;
}

SECTION(".struct_ops") struct tcp_congestion_ops control = {
	.init = (void *)fixed_init,
	.ssthresh = (void *)fixed_threshold,
	.cong_control = (void *)fixed_control,
	.undo_cwnd = (void *)fixed_undone,
	.name = NAME,
};
