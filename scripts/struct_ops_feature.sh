#!/usr/bin/env bash
# Prints the cargo option that builds the eBPF congestion controls of `linkhold host`, if this machine has what that takes:
# clang, and the headers of libbpf, libelf and zlib. Prints nothing otherwise, so that everything else still builds.
set -euo pipefail

command -v "${CLANG:-clang}" >/dev/null || exit 0
for header in bpf/bpf_core_read.h libelf.h zlib.h; do
  [[ -e /usr/include/$header ]] || exit 0
done
echo "--features linkhold/struct-ops"
