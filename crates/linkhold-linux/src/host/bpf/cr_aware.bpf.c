/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* CR-aware TCP for the kernel's own senders: CUBIC and Reno whose windows a silence of the radio leaves alone.
 *
 * Paper: cr-aware, section 3 ("freezes its cwnd", "restoring the frozen cwnd"). Two congestion controls,
 * linkhold_cubic and linkhold_reno, call the kernel's own and stand between them and the silence.
 * Sees: the kernel's calls about one socket, and the map `linkhold_quiet`, which user space writes.
 * Emits: snd_cwnd and snd_ssthresh.
 *
 * A socket: sending -> frozen -> mending -> sending.
 * - frozen: the silence of the interface that its packets come in by goes on. The window neither grows nor
 *   falls. The kernel has no callback at a silence's start, so the window kept is that of the last call before
 *   anything could have reduced it. What the sender's own losses took before the silence stays taken.
 * - mending: the silence is over, but data sent before its end is not yet acknowledged. What is lost of that
 *   data the silence lost, so it reduces nothing. The window does not grow either: after a thaw it is never
 *   above what it was before.
 * - silences in a row, each within a round trip of the one before: the first alone is mended in this way, up
 *   to its own thaw. Else the sender would mend for good. After that the window grows and a loss counts between
 *   them, but for the loss of what was sent in one of them.
 *
 * Deviations from the paper, because the verifier lets a congestion control write snd_cwnd and snd_ssthresh
 * but no timer and no estimate (docs/host.md has its refusals):
 * - a frozen socket does not stop sending. What the kept cwnd has room for goes out into the silence, new data
 *   too, until cwnd is used up. Closing windows (host/window.rs) is what stops it, so with freeze = "kernel"
 *   nothing does.
 * - the retransmission timer runs on and backs off; each expiry sends one segment. The acknowledgment that
 *   user space injects at the thaw resumes transmission (host/senders.rs).
 * - samples of the round trip that span the silence reach the estimate.
 * - at the thaw one segment is sent again at once, and the others with the first acknowledgment that brings news. All at
 *   once, they find the interface's queue as the silence left it, and what it has no room for is lost again. Where the next
 *   acknowledgment proves the timeout spurious, Linux takes the loss marks back and keeps the marks of the retransmissions
 *   (tcp_undo_cwnd_reduction), so a segment that was lost both times is sent again by the next timeout only, of
 *   6 s after a silence of 2 s. One of four CUBIC senders in a row stood still for that reason.
 * - in fast recovery the window follows PRR (RFC 6937) up to the kept one, instead of being put back at once:
 *   there is no call between PRR and the transmissions that it allows.
 * An ECN echo in a silence counts as a loss does: the callback cannot tell them apart.
 */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* GPL, because the kernel's CUBIC and Reno are exported to GPL programs only. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Since Linux 6.10 a congestion control may write snd_cwnd_stamp. Where the kernel refuses that, user space
 * sets this to 0 and loads again: the verifier passes over what a constant excludes. The flag has a section of
 * its own, so that user space finds it by the section's name. */
const volatile __u32 linkhold_writes_stamp SEC(".rodata.linkhold") = 1;

/* The interface of a radio. Index numbers are unique within a network namespace only. */
struct radio {
	__u64 netns_cookie;
	__u32 ifindex;
	__u32 zero;
};

/* The last silence of a radio, CLOCK_MONOTONIC in ns: frozen while since <= now < until. User space starts one
 * with the longest time that it may last as `until`, and ends it by writing an earlier one: a lost thaw, or a
 * killed program, heals itself. */
struct silence {
	__u64 since;
	__u64 until;
};

struct {
	/* Interfaces come and go, each with a number of its own: those told least lately give way. An update puts a
	 * new element in whole: no reader sees half of one. */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct radio);
	__type(value, struct silence);
} linkhold_quiet SEC(".maps");

/* A sender that has nothing to send for so long after a thaw, or before a silence, is idle by itself, and its
 * window restarts (RFC 5681 section 4.1): the RTO before a round trip is measured (RFC 6298 section 2.1), 1 s. */
#define OWN_IDLE_NS 1000000000ULL

enum phase { SENDING, FROZEN, MENDING };

/* Of how many silences of a row it is known what was sent in them; a power of two. Of more within one round
 * trip, the losses of the first ones count. */
#define RANGES 8

/* What was sent in a silence: sequence numbers from one to before the other. From the last call before it, so
 * that what left just before is in it. */
struct range {
	__u32 from;
	__u32 to;
};

/* What a socket had when the silence began. */
struct kept {
	__u32 phase;
	__u32 cwnd;     /* segments; while sending, as the last call left it */
	__u32 ssthresh; /* segments; likewise */
	__u32 mended;   /* sequence number: what is before it was sent before the thaw */
	__u32 owed;     /* the kernel runs a reduction on our threshold, and its end has to put the kept ones back */
	__u32 ifindex;  /* the radio */
	__u32 una;      /* snd_una at the last timeout, and how much beyond it had arrived then */
	__u32 sacked;
	__u32 probed;   /* all is acknowledged, but a loss probe from before the thaw is not judged */
	__u32 again;    /* frozen: the silence began before the one before it was mended */
	__u32 nxt;      /* snd_nxt at the last call outside a silence */
	__u32 soon;     /* frozen: a silence began within a round trip of the one before */
	__u32 row;      /* the ranges have something that is not acknowledged; all of it is before row_end */
	__u32 row_end;
	__u32 next;     /* where the next range goes */
	__u32 rested;   /* it was idle by itself when the silence began, and has sent nothing since */
	struct range ranges[RANGES]; /* of the silences of a row, but for the first */
	__u64 since;    /* start of the last silence that the socket met; silences are told apart by it */
	__u64 thawed;   /* when that silence ended, which may be long before the socket sees it */
	/* The last call outside a silence, on both clocks. */
	__u64 seen_ns;
	__u64 seen_jiffies;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct kept);
} linkhold_sock SEC(".maps");

/* What happened to sockets, for `linkhold status` and tests; never reset. */
struct counts {
	__u64 frozen;      /* a socket met a silence */
	__u64 shielded;    /* a reduction that was not made */
	__u64 restored;    /* times that a window was put back */
	__u64 mended;      /* a socket left a silence behind */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} linkhold_count SEC(".maps");

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline struct counts *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&linkhold_count, &zero);
}

#define COUNT(what)                                            \
	do {                                                   \
		struct counts *all = count();                  \
		if (all)                                       \
			__sync_fetch_and_add(&all->what, 1);   \
	} while (0)

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline __u8 ca_state(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

/* The last silence of the socket's radio, over or not; null if there was none. The radio is the interface that
 * the socket's packets come in by (sk_rx_dst_ifindex). The acknowledgments that user space injects come in by
 * the loopback, which is never the radio: the one before it counts. */
static __always_inline struct silence *last_silence(struct sock *sk, struct kept *kept)
{
	__u32 ifindex = sk->sk_rx_dst_ifindex;

	if (ifindex != LOOPBACK_IFINDEX)
		kept->ifindex = ifindex;
	struct radio radio = {
		.netns_cookie = sk->__sk_common.skc_net.net->net_cookie,
		.ifindex = kept->ifindex,
	};

	return bpf_map_lookup_elem(&linkhold_quiet, &radio);
}

/* Where a reduction that the kernel has begun goes on: fast recovery and CWR move the window by PRR. */
static __always_inline bool reducing(struct sock *sk)
{
	__u8 state = ca_state(sk);

	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/* Takes note of the window as the one to keep. In a reduction of the sender's own that is the one it leads to: PRR's
 * window between has to do with what is in flight, and may be above or far below it. */
static __always_inline void keep(struct sock *sk, struct kept *kept, bool reduced)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 had = kept->cwnd > tp->snd_cwnd ? kept->cwnd : tp->snd_cwnd;

	kept->cwnd = tp->snd_cwnd;
	kept->ssthresh = tp->snd_ssthresh;
	if (reduced)
		kept->cwnd = tp->snd_ssthresh < had ? tp->snd_ssthresh : had;
}

static __always_inline void put_back(struct sock *sk, struct kept *kept)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->snd_cwnd != kept->cwnd || tp->snd_ssthresh != kept->ssthresh)
		COUNT(restored);
	tp->snd_cwnd = kept->cwnd;
	tp->snd_ssthresh = kept->ssthresh;
}

/* CUBIC's window is a function of the time since its epoch began (RFC 9438 section 4.2): the silence must not
 * count. The length of a jiffy follows from the last call before the silence, so the kernel's HZ is not
 * needed. */
static __always_inline void leave_out_silence(struct sock *sk, struct kept *kept, struct silence *silence, __u64 now)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct bictcp *ca = (struct bictcp *)icsk->icsk_ca_priv;
	__u64 jiffies = bpf_jiffies64();
	__u64 elapsed_ns = now - kept->seen_ns;
	__u64 quiet_ns = silence->until - silence->since;

	if (!ca->epoch_start || !kept->seen_ns || !elapsed_ns)
		return;
	if (quiet_ns > elapsed_ns)
		quiet_ns = elapsed_ns;
	/* In microseconds, so that the product stays in 64 bits. */
	__u64 quiet = (jiffies - kept->seen_jiffies) * (quiet_ns / 1000) / (elapsed_ns / 1000 + 1);
	__u32 start = ca->epoch_start + (__u32)quiet;

	ca->epoch_start = before((__u32)jiffies, start) ? (__u32)jiffies : start;
}

/* An ACK begins, or has been looked through. A loss probe is judged between the two (tcp_process_tlp_ack), after all that was
 * sent before the thaw is acknowledged: what arrived may have been the probe, in place of what the silence lost. The
 * kernel takes the mark of the probe away before it asks for the threshold, so this has to be remembered. */
static __always_inline void settle_probe(struct sock *sk)
{
	struct kept *kept = bpf_sk_storage_get(&linkhold_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (kept && !tcp_sk(sk)->tlp_high_seq)
		kept->probed = 0;
}

/* Whether the first that is not acknowledged was sent in a silence of a row. */
static __always_inline bool sent_in_silence(struct sock *sk, struct kept *kept)
{
	__u32 una = tcp_sk(sk)->snd_una;

	if (!kept->row)
		return false;
	for (__u32 at = 0; at < RANGES; at++) {
		if (!before(una, kept->ranges[at].from) && before(una, kept->ranges[at].to))
			return true;
	}
	return false;
}

/* A silence is over. If it is the first of a row, all that was sent before its end is to be mended. So it is
 * where the silence took more than what was sent in it: a timeout, or the idle time of a sender with nothing
 * under way; and where a loss probe is out. But what is to be mended grows by no further silence: where these
 * come more often than round trips, there would be no end to it. */
static __always_inline void leave_silence(struct sock *sk, struct kept *kept, __u64 ended)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool idle = tp->snd_una == tp->snd_nxt;
	bool timed_out = ca_state(sk) == TCP_CA_Loss;
	bool whole = !kept->soon || idle || tp->tlp_high_seq || (timed_out && kept->owed);

	kept->thawed = ended;
	/* The window was not used in the silence, which is no reason to cut it (tcp_cwnd_validate). */
	if (linkhold_writes_stamp)
		tp->snd_cwnd_stamp = (__u32)bpf_jiffies64();
	if (kept->again || !whole) {
		__u32 at = kept->next & (RANGES - 1);

		kept->ranges[at].from = kept->nxt;
		kept->ranges[at].to = tp->snd_nxt;
		kept->next = at + 1;
		kept->row = 1;
		kept->row_end = tp->snd_nxt;
		kept->phase = kept->again ? MENDING : SENDING;
		if (!kept->again)
			COUNT(mended);
	} else {
		kept->phase = MENDING;
		/* With nothing under way, until the first new segment is acknowledged: the kernel restarts
		 * windows after idle time when it sends. */
		kept->mended = tp->snd_nxt + idle;
		/* A timeout of the sender's own, from before the silence: what it has to mend is its own, too,
		 * and its window has to grow meanwhile (slow start). */
		if (timed_out && !kept->owed)
			kept->mended = tp->snd_una;
	}
}

/* Brings a socket's phase up to date. `intact`: nothing has reduced the window since the last call, so the
 * window is the one to keep. */
static __always_inline struct kept *look(struct sock *sk, bool intact, bool cubic)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 now = bpf_ktime_get_ns();
	struct kept *kept = bpf_sk_storage_get(&linkhold_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!kept)
		return 0;
	__u32 radio = kept->ifindex;
	struct silence *silence = last_silence(sk, kept);

	/* Packets come in by another radio from now on. What was silent there before the last call took nothing. */
	if (silence && radio && radio != kept->ifindex && kept->phase == SENDING && silence->until <= kept->seen_ns)
		kept->since = silence->since;
	/* A silence without a call in it counts, too: its losses are yet to be found. */
	if (silence && silence->since != kept->since && silence->since <= now) {
		/* From a silence into the next with data still to mend: what the first one kept stays kept. */
		if (kept->phase == SENDING) {
			if (!kept->owed && (intact || !kept->cwnd))
				keep(sk, kept, reducing(sk));
			kept->rested = tp->snd_una == tp->snd_nxt && silence->since > kept->seen_ns + OWN_IDLE_NS;
			COUNT(frozen);
		}
		if (kept->phase != FROZEN) {
			/* Of silences without a call between them the socket sees the last alone. So what counts
			 * is until when it had calls. srtt_us is in eighths of a microsecond. */
			kept->soon = kept->seen_ns - kept->thawed <= tp->srtt_us * 125ULL;
			kept->again = kept->phase == MENDING;
		}
		kept->phase = FROZEN;
		kept->since = silence->since;
	}
	if (kept->phase == FROZEN) {
		if (silence && now < silence->until)
			return kept;
		if (cubic && silence)
			leave_out_silence(sk, kept, silence, now);
		leave_silence(sk, kept, silence ? silence->until : now);
	}
	kept->seen_ns = now;
	kept->seen_jiffies = bpf_jiffies64();
	kept->nxt = tp->snd_nxt;
	if (kept->row && !before(tp->snd_una, kept->row_end)) {
		kept->row = 0;
		__builtin_memset(kept->ranges, 0, sizeof(kept->ranges));
	}
	if (kept->phase == MENDING && !before(tp->snd_una, kept->mended)) {
		if (tp->tlp_high_seq && !before(kept->mended, tp->tlp_high_seq))
			kept->probed = 1;
		if (!kept->probed) {
			kept->phase = SENDING;
			COUNT(mended);
		}
	}
	return kept;
}

static __always_inline bool shields(struct kept *kept)
{
	return kept && kept->phase != SENDING;
}

/* Whether the loss of the first that is not acknowledged costs nothing. */
static __always_inline bool spares(struct sock *sk, struct kept *kept)
{
	return shields(kept) || (kept && sent_in_silence(sk, kept));
}

/* A new connection begins after the last silence of its radio. */
static __always_inline void meet(struct sock *sk)
{
	struct kept *kept = bpf_sk_storage_get(&linkhold_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!kept)
		return;
	__u64 now = bpf_ktime_get_ns();

	/* As if called before: its first call may come in a silence. */
	*kept = (struct kept){
		.phase = SENDING, .seen_ns = now, .seen_jiffies = bpf_jiffies64(), .nxt = tcp_sk(sk)->snd_nxt,
	};
	struct silence *silence = last_silence(sk, kept);

	if (silence && silence->until <= now)
		kept->since = silence->since;
}

/* The same at an ACK, before and after a loss probe is judged by it. */
static __always_inline struct kept *look_at_ack(struct sock *sk, bool cubic)
{
	settle_probe(sk);
	return look(sk, true, cubic);
}

/* While sending, what a call leaves is the window to keep. */
static __always_inline void remember(struct sock *sk, struct kept *kept)
{
	if (kept && kept->phase == SENDING && !kept->owed)
		keep(sk, kept, reducing(sk));
}

/* The threshold to answer in a silence; 0 if the algorithm's own is due. Not the kept ssthresh, which may be
 * above the window: the end of a fast recovery sets the window to this number. Not two for a window of one, either,
 * the least that a threshold otherwise is: PRR (RFC 6937) sends ssthresh segments for as many that arrive as the window
 * was, so that two would go for each. */
static __always_inline __u32 kept_threshold(struct sock *sk, bool cubic)
{
	struct kept *kept = look(sk, true, cubic);

	if (!kept)
		return 0;
	if (!spares(sk, kept)) {
		kept->owed = 0;
		return 0;
	}
	/* In a row of silences the window moves on between two calls. */
	if (!shields(kept) && !kept->owed)
		keep(sk, kept, reducing(sk));
	kept->owed = 1;
	COUNT(shielded);
	return kept->cwnd ? kept->cwnd : 2;
}

/* A new state; true if it is none of the algorithm's business. */
static __always_inline bool keep_state(struct sock *sk, __u8 new_state, bool cubic)
{
	struct kept *kept = look(sk, false, cubic);

	if (!kept)
		return false;
	if (new_state == TCP_CA_Loss) {
		if (!spares(sk, kept)) {
			/* Its own timeout. A silence that begins before the next ACK must not give back what this took. For a
			 * repeated timeout the kernel asks for no threshold: what we lent stays, but for less than it may be. */
			if (kept->owed && tcp_sk(sk)->snd_ssthresh < 2)
				tcp_sk(sk)->snd_ssthresh = 2;
			kept->owed = 0;
			keep(sk, kept, false);
			return false;
		}
		/* tcp_enter_loss has just set the window to one segment. Nobody sends before the next ACK. */
		put_back(sk, kept);
		kept->una = tcp_sk(sk)->snd_una;
		kept->sacked = tcp_sk(sk)->sacked_out;
		return true;
	}
	if (kept->owed && (new_state == TCP_CA_Open || new_state == TCP_CA_Disorder)) {
		if (reducing(sk)) {
			/* Often tcp_end_cwnd_reduction comes after this call, sets the window to the threshold that we lent
			 * and says CA_EVENT_COMPLETE_CWR, so the threshold stays lent. After an undo it may not come. */
			tcp_sk(sk)->snd_cwnd = kept->cwnd;
		} else {
			put_back(sk, kept);
			kept->owed = 0;
		}
	}
	if (!shields(kept) && !kept->owed && (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery))
		keep(sk, kept, true);
	return shields(kept);
}

/* An event; true if it is none of the algorithm's business. */
static __always_inline bool keep_event(struct sock *sk, enum tcp_ca_event event, bool cubic)
{
	struct kept *kept = look(sk, event != CA_EVENT_LOSS, cubic);

	if (kept && kept->owed && event == CA_EVENT_COMPLETE_CWR) {
		put_back(sk, kept);
		kept->owed = 0;
		return true;
	}
	if (!shields(kept))
		return false;
	if (event == CA_EVENT_TX_START && !reducing(sk)) {
		struct tcp_sock *tp = tcp_sk(sk);
		/* Who waits for its timer has nothing in flight, either, but is not idle. */
		bool idle = tp->snd_una == tp->snd_nxt;

		if (kept->phase == MENDING && idle && bpf_ktime_get_ns() - kept->thawed > OWN_IDLE_NS) {
			kept->phase = SENDING;
			COUNT(mended);
			return false;
		}
		/* The window was restarted for the idle time before the silence. */
		if (kept->rested && idle) {
			kept->rested = 0;
			keep(sk, kept, false);
			return false;
		}
		/* The window was restarted after idle time (tcp_cwnd_restart), and the idle time was the silence's. */
		put_back(sk, kept);
	}
	return true;
}

/* An ACK arrived, and the kernel has not sent anything for it. After a timeout in a silence, one that brings no news, such as
 * the one injected at the thaw, lets out one segment. */
static __always_inline void hold_back(struct sock *sk, bool cubic)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca_state(sk) != TCP_CA_Loss)
		return;
	struct kept *kept = look(sk, true, cubic);

	if (!spares(sk, kept) || !kept->owed)
		return;
	__u32 in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	bool news = tp->snd_una != kept->una || tp->sacked_out != kept->sacked;

	tp->snd_cwnd = news || in_flight >= kept->cwnd ? kept->cwnd : in_flight + 1;
}

/* An ACK moved the stream on; true if the window must not grow by it. */
static __always_inline bool keep_window(struct sock *sk, bool cubic)
{
	struct kept *kept = look_at_ack(sk, cubic);

	/* An undo can end fast recovery without CA_EVENT_COMPLETE_CWR. */
	if (kept && kept->owed && !reducing(sk)) {
		put_back(sk, kept);
		kept->owed = 0;
	}
	remember(sk, kept);
	if (!shields(kept))
		return false;
	if (!reducing(sk))
		put_back(sk, kept);
	return true;
}

/* The window that an undone reduction goes back to; 0 if the algorithm's own is due. */
static __always_inline __u32 kept_window(struct sock *sk, bool cubic)
{
	struct kept *kept = look(sk, true, cubic);

	/* What is owed stays owed: fast recovery may go on, and PRR move the window, after an undo. */
	return kept && (kept->owed || shields(kept)) ? kept->cwnd : 0;
}

SEC("struct_ops/cubic_init")
void BPF_PROG(cubic_init, struct sock *sk)
{
	meet(sk);
	cubictcp_init(sk);
}

SEC("struct_ops/cubic_ssthresh")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	__u32 kept = kept_threshold(sk, true);

	return kept ? kept : cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops/cubic_cong_avoid")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	if (!keep_window(sk, true))
		cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/cubic_set_state")
void BPF_PROG(cubic_set_state, struct sock *sk, __u8 new_state)
{
	if (!keep_state(sk, new_state, true))
		cubictcp_state(sk, new_state);
}

SEC("struct_ops/cubic_cwnd_event")
void BPF_PROG(cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (!keep_event(sk, event, true))
		cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops/cubic_in_ack_event")
void BPF_PROG(cubic_in_ack_event, struct sock *sk, __u32 flags)
{
	hold_back(sk, true);
}

SEC("struct_ops/cubic_acked")
void BPF_PROG(cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct kept *kept = look_at_ack(sk, true);

	remember(sk, kept);
	/* Round trips through the silence would end slow start (HyStart). */
	if (!shields(kept) && !(kept && kept->row))
		cubictcp_acked(sk, sample);
}

SEC("struct_ops/cubic_undo_cwnd")
__u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	__u32 kept = kept_window(sk, true);

	return kept ? kept : tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops linkhold_cubic = {
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_set_state,
	.cwnd_event = (void *)cubic_cwnd_event,
	.in_ack_event = (void *)cubic_in_ack_event,
	.pkts_acked = (void *)cubic_acked,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "linkhold_cubic",
};

SEC("struct_ops/reno_init")
void BPF_PROG(reno_init, struct sock *sk)
{
	meet(sk);
}

SEC("struct_ops/reno_ssthresh")
__u32 BPF_PROG(reno_ssthresh, struct sock *sk)
{
	__u32 kept = kept_threshold(sk, false);

	return kept ? kept : tcp_reno_ssthresh(sk);
}

SEC("struct_ops/reno_cong_avoid")
void BPF_PROG(reno_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	if (!keep_window(sk, false))
		tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/reno_set_state")
void BPF_PROG(reno_set_state, struct sock *sk, __u8 new_state)
{
	keep_state(sk, new_state, false);
}

SEC("struct_ops/reno_cwnd_event")
void BPF_PROG(reno_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	keep_event(sk, event, false);
}

SEC("struct_ops/reno_in_ack_event")
void BPF_PROG(reno_in_ack_event, struct sock *sk, __u32 flags)
{
	hold_back(sk, false);
}

SEC("struct_ops/reno_acked")
void BPF_PROG(reno_acked, struct sock *sk, const struct ack_sample *sample)
{
	remember(sk, look_at_ack(sk, false));
}

SEC("struct_ops/reno_undo_cwnd")
__u32 BPF_PROG(reno_undo_cwnd, struct sock *sk)
{
	__u32 kept = kept_window(sk, false);

	return kept ? kept : tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops linkhold_reno = {
	.init = (void *)reno_init,
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_cong_avoid,
	.set_state = (void *)reno_set_state,
	.cwnd_event = (void *)reno_cwnd_event,
	.in_ack_event = (void *)reno_in_ack_event,
	.pkts_acked = (void *)reno_acked,
	.undo_cwnd = (void *)reno_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "linkhold_reno",
};
