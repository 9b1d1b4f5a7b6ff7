/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* The congestion controls of cr_aware.bpf.c in a test's process: the program's own source, compiled for this machine, with one
 * socket, one clock and one radio behind the helpers that it calls.
 *
 * A test owns a board and calls the program by number. What the program reads of the kernel is copied from the board
 * into the structures of kernel_types.h before a call, and what it wrote is copied back. The kernel's Reno is the one
 * of RFC 5681 (half of the window, slow start, one segment a window); CUBIC's stand-in shrinks to 0.7 (RFC 9438,
 * section 4.6), grows as Reno, and starts an epoch where CUBIC does. */
#include "../bpf/cr_aware.bpf.c"

/* Mirrored by `Board` in mod.rs, member by member. */
struct board {
	__u64 now_ns;
	__u64 jiffies;
	/* The silence in the map; `quiet_there` is 0 where the map has none. */
	__u64 quiet_since;
	__u64 quiet_until;
	__u32 quiet_there;
	/* The index of the interface that packets come in by. */
	__u32 ifindex;
	/* 0 where the kernel has no memory for the socket's storage. */
	__u32 memory;
	__u32 ca_state;
	__u32 cwnd;
	__u32 ssthresh;
	__u32 cwnd_stamp;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 srtt_us;
	/* Whether the sender uses its window up (tcp_is_cwnd_limited), and the window before the last reduction. */
	__u32 cwnd_limited;
	__u32 prior_cwnd;
	/* ACKs counted towards the next segment of congestion avoidance. */
	__u32 cwnd_cnt;
	__u32 epoch_start;
	/* The radio's index; the map knows no other. */
	__u32 radio;
	/* Segments: sent and not acknowledged; of these arrived, lost, and sent again and under way. */
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 tlp_high_seq;
	/* The socket's storage. */
	__u32 stored;
	__u32 zero;
	struct kept kept;
	struct counts counts;
};

static __thread struct board *board;
static __thread struct tcp_sock tcp;
static __thread struct net net;

__u64 bpf_ktime_get_ns(void)
{
	return board->now_ns;
}

__u64 bpf_jiffies64(void)
{
	return board->jiffies;
}

void *bpf_map_lookup_elem(void *map, const void *key)
{
	if (map == (void *)&linkhold_count)
		return &board->counts;
	if (map == (void *)&linkhold_quiet) {
		const struct radio *radio = key;
		/* Laid out alike. */
		if (board->quiet_there && radio->ifindex == board->radio && radio->netns_cookie == net.net_cookie)
			return &board->quiet_since;
	}
	return 0;
}

void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags)
{
	(void)map, (void)sk, (void)value, (void)flags;
	if (!board->stored && !board->memory)
		return 0;
	board->stored = 1;
	return &board->kept;
}

__u32 tcp_reno_ssthresh(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return tp->snd_cwnd / 2 > 2 ? tp->snd_cwnd / 2 : 2;
}

void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	(void)ack;
	if (!board->cwnd_limited)
		return;
	for (; acked; acked--) {
		if (tp->snd_cwnd < tp->snd_ssthresh) {
			tp->snd_cwnd++;
		} else if (++board->cwnd_cnt >= tp->snd_cwnd) {
			board->cwnd_cnt = 0;
			tp->snd_cwnd++;
		}
	}
}

__u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return tp->snd_cwnd > board->prior_cwnd ? tp->snd_cwnd : board->prior_cwnd;
}

static struct bictcp *cubic_of(struct sock *sk)
{
	return (struct bictcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

void cubictcp_init(struct sock *sk)
{
	cubic_of(sk)->epoch_start = 0;
}

__u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	__u32 less = (__u32)((__u64)((struct tcp_sock *)sk)->snd_cwnd * 7 / 10);

	cubic_of(sk)->epoch_start = 0;
	return less > 2 ? less : 2;
}

void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	if (!cubic_of(sk)->epoch_start)
		cubic_of(sk)->epoch_start = (__u32)board->jiffies;
	tcp_reno_cong_avoid(sk, ack, acked);
}

void cubictcp_state(struct sock *sk, __u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		cubic_of(sk)->epoch_start = 0;
}

void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	(void)sk, (void)event;
}

void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
	(void)sk, (void)sample;
}

/* The calls, numbered as in mod.rs. The program's are first; `plain` are the stand-ins themselves, without it. */
enum call { INIT, SSTHRESH, CONG_AVOID, SET_STATE, CWND_EVENT, ACKED, UNDO_CWND, IN_ACK_EVENT };

static __u32 shielded(struct tcp_congestion_ops *ops, struct sock *sk, __u32 call, __u32 with)
{
	struct ack_sample sample = { .pkts_acked = with };

	switch (call) {
	case INIT:
		ops->init(sk);
		return 0;
	case SSTHRESH:
		return ops->ssthresh(sk);
	case CONG_AVOID:
		ops->cong_avoid(sk, 0, with);
		return 0;
	case SET_STATE:
		ops->set_state(sk, (__u8)with);
		return 0;
	case CWND_EVENT:
		ops->cwnd_event(sk, (enum tcp_ca_event)with);
		return 0;
	case ACKED:
		ops->pkts_acked(sk, &sample);
		return 0;
	case UNDO_CWND:
		return ops->undo_cwnd(sk);
	case IN_ACK_EVENT:
		ops->in_ack_event(sk, with);
		return 0;
	default:
		return 0;
	}
}

static __u32 plain(bool cubic, struct sock *sk, __u32 call, __u32 with)
{
	switch (call) {
	case INIT:
		if (cubic)
			cubictcp_init(sk);
		return 0;
	case SSTHRESH:
		return cubic ? cubictcp_recalc_ssthresh(sk) : tcp_reno_ssthresh(sk);
	case CONG_AVOID:
		if (cubic)
			cubictcp_cong_avoid(sk, 0, with);
		else
			tcp_reno_cong_avoid(sk, 0, with);
		return 0;
	case SET_STATE:
		if (cubic)
			cubictcp_state(sk, (__u8)with);
		return 0;
	case UNDO_CWND:
		return tcp_reno_undo_cwnd(sk);
	default:
		return 0;
	}
}

__attribute__((visibility("default"))) __u32 linkhold_size(void)
{
	return sizeof(struct board);
}

__attribute__((visibility("default"))) __u32 linkhold_call(struct board *on, __u32 cubic, __u32 shield, __u32 call,
							   __u32 with)
{
	struct sock *sk = (struct sock *)&tcp;
	__u32 answer;

	board = on;
	net.net_cookie = 7;
	sk->__sk_common.skc_net.net = &net;
	sk->sk_rx_dst_ifindex = (int)on->ifindex;
	tcp.inet_conn.icsk_ca_state = on->ca_state & 31;
	tcp.snd_cwnd = on->cwnd;
	tcp.snd_ssthresh = on->ssthresh;
	tcp.snd_cwnd_stamp = on->cwnd_stamp;
	tcp.snd_nxt = on->snd_nxt;
	tcp.snd_una = on->snd_una;
	tcp.srtt_us = on->srtt_us;
	tcp.packets_out = on->packets_out;
	tcp.sacked_out = on->sacked_out;
	tcp.lost_out = on->lost_out;
	tcp.retrans_out = on->retrans_out;
	tcp.tlp_high_seq = on->tlp_high_seq;
	cubic_of(sk)->epoch_start = on->epoch_start;
	answer = shield ? shielded(cubic ? &linkhold_cubic : &linkhold_reno, sk, call, with) :
			  plain(cubic, sk, call, with);
	on->cwnd = tcp.snd_cwnd;
	on->ssthresh = tcp.snd_ssthresh;
	on->cwnd_stamp = tcp.snd_cwnd_stamp;
	on->epoch_start = cubic_of(sk)->epoch_start;
	board = 0;
	return answer;
}
