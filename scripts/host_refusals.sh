#!/usr/bin/env bash
# What this kernel's verifier lets an eBPF congestion control write or call: the table of docs/host.md ("What the kernel
# refuses"). Each line is one statement in a set_state callback, and the verifier's answer. Needs root, clang, bpftool, BTF.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bpftool btf dump file /sys/kernel/btf/vmlinux format c >"$work/vmlinux.h"
case $(uname -m) in
  x86_64) machine=x86 ;;
  aarch64) machine=arm64 ;;
  *) echo "no eBPF registers known for $(uname -m)" >&2; exit 1 ;;
esac

# statement, declarations that it needs
try() {
  cat >"$work/try.bpf.c" <<PROGRAM
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
char LICENSE[] SEC("license") = "GPL";
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
${2:-}
SEC("struct_ops/state") void BPF_PROG(state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	$1
}
SEC("struct_ops/threshold") u32 BPF_PROG(threshold, struct sock *sk) { return tcp_reno_ssthresh(sk); }
SEC("struct_ops/undo") u32 BPF_PROG(undo, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
SEC("struct_ops/grow") void BPF_PROG(grow, struct sock *sk, u32 ack, u32 acked) { tcp_reno_cong_avoid(sk, ack, acked); }
SEC(".struct_ops") struct tcp_congestion_ops linkhold_try = {
	.ssthresh = (void *)threshold, .cong_avoid = (void *)grow, .undo_cwnd = (void *)undo,
	.set_state = (void *)state, .name = "linkhold_try",
};
PROGRAM
  clang -O2 -g -target bpf "-D__TARGET_ARCH_$machine" -I"$work" -c "$work/try.bpf.c" -o "$work/try.o"
  local said
  said=$(bpftool struct_ops register "$work/try.o" 2>&1 || true)
  bpftool struct_ops unregister name linkhold_try >/dev/null 2>&1 || true
  printf '%-42s %s\n' "$1" "$(grep -m1 -E 'no write support|not allowed|not found in|^Registered' <<<"$said" || tail -n1 <<<"$said")"
}

uname -r
try 'icsk->icsk_rto = 200;'
try 'icsk->icsk_backoff = 0;'
try 'tp->srtt_us = 1;'
try 'tp->prior_cwnd = 10;'
try 'tp->undo_marker = 1;'
try 'tcp_reset_xmit_timer(sk, 1, 200, 0);' 'extern void tcp_reset_xmit_timer(struct sock *sk, int what, unsigned long when, bool pace) __ksym;'
try 'tcp_retransmit_timer(sk);' 'extern void tcp_retransmit_timer(struct sock *sk) __ksym;'
try 'tp->snd_cwnd = 10;'
try 'tp->snd_cwnd_cnt = 1;'
try 'tp->snd_cwnd_stamp = 1;'
try 'tp->snd_ssthresh = 10;'
try 'tp->app_limited = 1;'
try 'sk->sk_pacing_rate = 1;'
