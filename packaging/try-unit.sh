#!/bin/sh
# Tries linkhold-agent.service under a systemd of its own: in new namespaces (processes, mounts, network, cgroups), so that
# nothing of this machine changes. As root, with systemd, iproute2, iptables or nftables, and cgroup v2:
#   packaging/try-unit.sh target/release/linkhold
# Says what it checks, a line each; exit status 0 if all of it holds.
set -eu

self=$(readlink -f "$0")
unit=$(dirname "$self")/linkhold-agent.service

# Third stage, inside, when systemd runs: the checks.
if [ "${1-}" = --check ]; then
  failed=0
  check() { # what, command
    what=$1; shift
    if "$@" >/dev/null 2>&1; then echo "ok      $what"; else echo "FAILED  $what"; failed=1; fi
  }
  rules() { iptables -t mangle -S FORWARD 2>/dev/null | grep -q LINKHOLD || nft list ruleset 2>/dev/null | grep -q jump.*_default; }
  no_rules() { ! rules; }
  main() { systemctl show -p MainPID --value linkhold-agent; }
  status_has() { linkhold status --json | grep -q "$1"; }
  has_only_two_capabilities() { grep -q '^CapEff:	0000000000003000$' "/proc/$(main)/status" && grep -q '^CapBnd:	0000000000003000$' "/proc/$(main)/status"; }
  is_replaced() { # pid
    for _ in $(seq 100); do
      new=$(main)
      if [ "$new" != 0 ] && [ "$new" != "$1" ] && systemctl is-active -q linkhold-agent; then return 0; fi
      sleep 0.1
    done
    return 1
  }
  on_one_processor() { grep -Eq '^Cpus_allowed_list:[[:space:]]+[0-9]+$' "/proc/$(main)/status"; }
  gave_up() { [ "$(systemctl show -p ExecMainStatus -p NRestarts --value linkhold-agent | sort | tr '\n' ' ')" = "0 2 " ]; }
  check "it starts, and is ready when systemctl returns" systemctl start linkhold-agent
  check "it answers" linkhold status
  check "packets are led to it" rules
  check "it has CAP_NET_ADMIN and CAP_NET_RAW only" has_only_two_capabilities
  check "it stays on one processor" on_one_processor
  check "it takes signals" linkhold signal freeze --for 50ms
  check "they are counted" status_has '"silences": *1'
  old=$(main); kill -KILL "$old"
  check "killed, it is started again" is_replaced "$old"
  check "its rules are there again" rules
  old=$(main); kill -STOP "$old"
  check "hung, it is found by the watchdog and started again" is_replaced "$old"
  check "it stops" systemctl stop linkhold-agent
  check "its end was a success" [ "$(systemctl show -p Result --value linkhold-agent)" = success ]
  check "its rules are gone" no_rules
  check "its socket is gone" [ ! -e /run/linkhold/agent.sock ]
  echo 'nonsense = 1' >>/etc/linkhold/agent.toml
  systemctl start linkhold-agent 2>/dev/null || true
  sleep 2
  check "a wrong configuration is tried once" gave_up
  exit $failed
fi

# Second stage, first process of the new namespaces: a small system, then systemd.
if [ "${1-}" = --boot ]; then
  mount --make-rprivate /
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mount -t tmpfs -o mode=755 tmpfs /var/log
  for folder in etc usr/bin; do
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/upper /mnt/work
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=/mnt/upper,workdir=/mnt/work" "/$folder"
  done
  cp "$2" /usr/bin/linkhold
  cp "$unit" /etc/systemd/system/
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/systemd/system /run/lock /etc/linkhold
  printf 'wired = ["wired0"]\nradio = ["radio0"]\n' >/etc/linkhold/agent.toml
  ip link set lo up
  ip link add wired0 type veth peer name wired1
  ip link add radio0 type veth peer name radio1
  # Of this machine's own services, only the journal may start.
  rm -f /etc/systemd/system/*.wants/*
  for wanted in /lib/systemd/system/sysinit.target.wants/* /lib/systemd/system/multi-user.target.wants/* \
    /lib/systemd/system/timers.target.wants/* systemd-udevd.service systemd-udevd-control.socket \
    systemd-udevd-kernel.socket systemd-logind.service dbus.service dbus.socket systemd-journal-flush.service; do
    name=$(basename "$wanted")
    [ "$name" = systemd-journald.service ] || ln -sf /dev/null "/run/systemd/system/$name"
  done
  printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >/etc/systemd/system/try.target
  mount -o remount,bind,ro /sys
  mount --bind /proc/sys /proc/sys
  mount -o remount,bind,ro /proc/sys
  exec env -i container=unshare PATH="$PATH" /lib/systemd/systemd --system --unit=try.target --log-target=null
fi

# First stage: new namespaces in a control group of their own.
program=$(readlink -f "${1:?usage: try-unit.sh PATH-OF-LINKHOLD}")
tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$tree/linkhold-try-$$
mkdir "$group"
sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec unshare --cgroup --pid --fork --mount --uts --ipc --net --mount-proc "$@"' \
  sh "$group" "$self" --boot "$program" </dev/null &
outer=$!
clean_up() {
  # When the first process of the namespaces ends, all others end with it.
  if [ -n "${inner-}" ]; then kill -KILL "$inner" 2>/dev/null || true; fi
  wait "$outer" 2>/dev/null || true
  sleep 0.5
  find "$group" -depth -type d -exec rmdir {} \;
}
trap clean_up EXIT
running=no
for _ in $(seq 100); do
  sleep 0.1
  inner=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null | tr -d ' ')
  if [ -n "$inner" ] && nsenter --target "$inner" --all systemctl is-active -q try.target 2>/dev/null; then
    running=yes
    break
  fi
done
[ $running = yes ] || { echo "systemd did not come up in the namespaces" >&2; exit 1; }
nsenter --target "$inner" --all sh "$self" --check
