/* SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only */
/* In place of libbpf's header: a program is a function with its arguments. */
#pragma once

#define BPF_PROG(name, ...) name(__VA_ARGS__)
