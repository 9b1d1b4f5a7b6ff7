#!/usr/bin/env bash
# Makes sure that this machine has what `make demo`, `make test` or `make host-page` needs. As root on Debian or Ubuntu it
# installs missing packages; otherwise it says exactly which are missing and how to get them.
set -euo pipefail

what=${1:?usage: setup.sh demo|test|host-page}

if ! command -v cargo >/dev/null; then
  echo "setup: no Rust toolchain (cargo) found. Install it from https://rustup.rs, then run this again." >&2
  exit 1
fi

# command:package
needs=(cc:gcc)
# Headers, which are no commands: file:package.
headers=()
if [[ $what == test || $what == host-page ]]; then
  # clang, libbpf-dev, libelf-dev and zlib1g-dev build the eBPF congestion controls of `linkhold host`; bpftool loads what the
  # kernel refuses of them (scripts/host_refusals.sh). tshark opens captures.
  headers=(bpf/bpf_core_read.h:libbpf-dev libelf.h:libelf-dev zlib.h:zlib1g-dev)
  needs+=(clang:clang bpftool:bpftool ip:iproute2 ss:iproute2 iptables:iptables nft:nftables iperf3:iperf3 jq:jq tshark:tshark python3:python3-venv)
  # Commands of the pages that make router-page runs.
  needs+=(sysctl:procps curl:curl)
fi

missing=()
# Of these those without which no test is built, or no page checked: nothing skips for want of them.
vital=()
for need in "${needs[@]}"; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${need%%:*}" >/dev/null && continue
  missing+=("${need#*:}")
  [[ ${need%%:*} != cc && ${need%%:*} != python3 ]] || vital+=("${need#*:}")
done
for header in "${headers[@]}"; do
  [[ -e /usr/include/${header%%:*} ]] || missing+=("${header#*:}")
done
if [[ $what == test ]] && command -v python3 >/dev/null && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  missing+=(python3-venv)
  vital+=(python3-venv)
fi
# scripts/tests compute a reference table anew with it.
if [[ $what == test ]] && ! /usr/bin/python3 -c 'import mpmath' 2>/dev/null; then
  missing+=(python3-mpmath)
fi
((${#missing[@]})) || exit 0

if ((EUID == 0)) && command -v apt-get >/dev/null; then
  echo "setup: installing ${missing[*]}"
  log=$(mktemp)
  if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install ${missing[*]}" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  exit 0
fi

echo "setup: missing: ${missing[*]}" >&2
echo "setup: install them, for example: sudo apt-get install ${missing[*]}" >&2
if [[ $what == test ]]; then
  if ((${#vital[@]} == 0)); then
    echo "setup: going on; tests that need them skip and say so." >&2
    exit 0
  fi
  echo "setup: not without ${vital[*]}: no test skips for want of that." >&2
fi
exit 1
