/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* In place of libbpf's header: the structures are our own, so a bit field is read as it stands. */
#pragma once

#define BPF_CORE_READ_BITFIELD(from, field) ((from)->field)
