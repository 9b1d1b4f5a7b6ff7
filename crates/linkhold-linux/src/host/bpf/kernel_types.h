/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* The few kernel structures that cr_aware.bpf.c reads, with only the members that it reads.
 *
 * The loader finds each member's offset in the running kernel's own type information (CO-RE), so the order and
 * the gaps here mean nothing, and no kernel headers are needed to build. Types of members are the kernel's.
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
enum { false, true };

/* include/uapi/linux/bpf.h */
enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

/* include/net/flow.h: the loopback has this index in every network namespace. */
enum { LOOPBACK_IFINDEX = 1 };

/* Tests compile the program for their own process, too (host/user_space), where members lie where they stand here. */
#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	int sk_rx_dst_ifindex;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_initialized : 1;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 snd_cwnd_stamp; /* jiffies */
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 srtt_us; /* the smoothed round trip, in eighths of a microsecond */
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 tlp_high_seq; /* snd_nxt when a loss probe was sent, until it is answered; 0: none is out */
};

/* net/ipv4/tcp_cubic.c: what CUBIC keeps in icsk_ca_priv. */
struct bictcp {
	__u32 epoch_start; /* jiffies at which this epoch of growth began; 0 if none runs */
};

struct ack_sample {
	__u32 pkts_acked;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

/* include/net/tcp.h: any user may choose it. */
enum { TCP_CONG_NON_RESTRICTED = 1 };

/* include/uapi/linux/tcp.h */
enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
};

#ifdef __bpf__
#pragma clang attribute pop
#endif
