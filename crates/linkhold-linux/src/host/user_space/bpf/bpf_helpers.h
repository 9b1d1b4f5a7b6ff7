/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* In place of libbpf's header: what cr_aware.bpf.c takes from it, for a build that runs in a test's process. */
#pragma once

#define SEC(name)
#define __ksym
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, of) __typeof__(of) *name

__u64 bpf_ktime_get_ns(void);
__u64 bpf_jiffies64(void);
void *bpf_map_lookup_elem(void *map, const void *key);
void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags);
