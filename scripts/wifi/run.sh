#!/usr/bin/env bash
# `make test-wifi`: the agent on real Wi-Fi (mac80211_hwsim, hostapd, wpa_supplicant) in a virtual machine.
#   scripts/wifi/run.sh LINKHOLD [FOLDER [ROUNDS]]
# The machine boots Debian's kernel on this system's own root, read-only with a tmpfs above it, so nothing is installed
# in it. It is emulated (TCG): LINKHOLD_WIFI_ACCEL=kvm is faster where /dev/kvm works. FOLDER (target/wifi) keeps the
# kernel, 71 MB to fetch, and the results of the last run. Where a machine cannot be had, the test is skipped with its reason.
# With ROUNDS it judges nothing, but measures downloads for scripts/wifi_page.py.
set -euo pipefail

linkhold=$(readlink -f "${1:?usage: run.sh LINKHOLD [FOLDER [ROUNDS]]}")
rounds=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=${2:-${CARGO_TARGET_DIR:-$here/../../target}/wifi}
# The boot takes 15 s, the check for radars 60, everything together 180; a loaded machine takes twice as long.
limit=$((420 + 100 * ${rounds:-0}))
packages=(qemu-system-x86 hostapd wpasupplicant iw wireless-regdb busybox-static kmod iproute2 iperf3 nftables python3-minimal)

skip() {
  echo "test-wifi: skipped: $*"
  exit 0
}
# shellcheck source=scripts/wifi/attempts.sh
. "$here/attempts.sh"

[[ $(uname -m) == x86_64 ]] || skip "the machine is $(uname -m), and Debian's kernel for x86_64 is what it boots"
((EUID == 0)) || skip "it takes root, to share this system's root with the machine"
command -v apt-get > /dev/null && command -v dpkg > /dev/null || skip "no apt-get: Debian's kernel and packages cannot be had"
mkdir -p "$folder/kernel"
folder=$(cd "$folder" && pwd)
log=$folder/apt.log
: > "$log"
refreshed=
refresh() {
  [[ $refreshed ]] || apt-get update -q >> "$log" 2>&1 || skip "apt-get update failed (no network?): $(tail -n 1 "$log")"
  refreshed=yes
}
if ! dpkg -s "${packages[@]}" > /dev/null 2>&1; then
  echo "test-wifi: installing ${packages[*]}"
  refresh
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}" >> "$log" 2>&1 ||
    skip "apt-get cannot install its packages: $(tail -n 1 "$log")"
fi
kernel=$(compgen -G "$folder/kernel/boot/vmlinuz-*" | head -n 1 || true)
if [[ -z $kernel ]]; then
  echo "test-wifi: fetching a kernel"
  # Ubuntu's kernels come without mac80211_hwsim in their main package; Debian's have it.
  image=$(apt-cache depends linux-image-amd64 2> /dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  if [[ -z $image ]]; then
    refresh
    image=$(apt-cache depends linux-image-amd64 2> /dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  fi
  [[ $image ]] || skip "apt knows no linux-image-amd64: only Debian's kernel was tried"
  rm -rf "$folder/fetch"
  mkdir "$folder/fetch"
  if ! (cd "$folder/fetch" && apt-get download -q "$image") >> "$log" 2>&1; then
    refresh
    (cd "$folder/fetch" && apt-get download -q "$image") >> "$log" 2>&1 ||
      skip "apt-get cannot fetch $image (no network?): $(tail -n 1 "$log")"
  fi
  dpkg -x "$folder"/fetch/*.deb "$folder/fetch/root"
  # Whole or not at all: an interrupted fetch leaves no kernel behind.
  rm -rf "$folder/kernel"
  mv "$folder/fetch/root" "$folder/kernel"
  rm -rf "$folder/fetch"
  kernel=$(compgen -G "$folder/kernel/boot/vmlinuz-*" | head -n 1)
fi
version=${kernel##*/vmlinuz-}
[[ -e $folder/kernel/lib/modules/$version/modules.dep.bin ]] || depmod -b "$folder/kernel" "$version"

# An initramfs that mounts this system's root by 9p, a tmpfs above it, and the kernel's modules into it.
initramfs=$folder/initramfs
rm -rf "$initramfs"
mkdir -p "$initramfs"/{bin,modules,proc,sys,dev,root}
cp "$(command -v busybox)" "$initramfs/bin/busybox"
modprobe -d "$folder/kernel" -S "$version" -a --show-depends virtio_pci 9pnet_virtio 9p overlay |
  awk '$1 == "insmod" && !seen[$2]++ {printf "%03d %s\n", ++n, $2}' |
  while read -r number module; do cp "$module" "$initramfs/modules/$number-${module##*/}"; done
out=$folder/out
cat > "$initramfs/init" << END
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*; do insmod \$module; done
mount -t tmpfs none /root
mkdir /root/host /root/above /root/new
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /root/host
mount -t tmpfs none /root/above
mkdir /root/above/upper /root/above/work
mount -t overlay -o lowerdir=/root/host,upperdir=/root/above/upper,workdir=/root/above/work none /root/new
for place in proc sys dev; do mount --move /\$place /root/new/\$place; done
mount -t tmpfs none /root/new/run
mkdir -p /root/new/dev/shm /root/new/dev/pts /root/new/usr/lib/modules /root/new$out
mount -t devpts none /root/new/dev/pts
mount -t debugfs none /root/new/sys/kernel/debug
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /root/new$out
mount --bind /root/host$folder/kernel/lib/modules /root/new/usr/lib/modules
exec switch_root /root/new /bin/bash -c 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root; ip link set lo up; timeout $((limit - 25)) "$here/guest.sh" "$linkhold" "$out" $rounds; busybox poweroff -f'
END
chmod +x "$initramfs/init"
(cd "$initramfs" && find . | busybox cpio -o -H newc 2> /dev/null) > "$folder/initrd"

boot=0
rm -f "$folder/pid"
trap '[[ ! -e $folder/pid ]] || kill "$(< "$folder/pid")" 2> /dev/null || true' EXIT
# Boots the machine, and judges what it left, with an answer as in attempts.sh.
attempt() {
  local started
  rm -rf "$out"
  mkdir "$out"
  started=$(date +%s)
  # Times are judged, so the machine goes before other work. Where Linux shares processors between sessions
  # first (sched_autogroup), that takes a session of its own, which ends with this script.
  setsid --wait bash -c 'echo $$ > "$0"; echo -10 2> /dev/null > /proc/self/autogroup; exec "$@"' "$folder/pid" \
    timeout "$limit" nice -n -10 qemu-system-x86_64 -accel "${LINKHOLD_WIFI_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 1536 \
    -nodefaults -no-user-config -nographic -serial stdio -no-reboot -kernel "$kernel" -initrd "$folder/initrd" \
    -append "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off nokaslr apparmor=0" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -fsdev local,id=out,path="$out",security_model=none -device virtio-9p-pci,fsdev=out,mount_tag=out \
    < /dev/null > "$folder/console" 2>&1 || true
  rm -f "$folder/pid"
  boot=never
  [[ ! -e $out/booted ]] || boot=$(($(stat -c %Y "$out/booted") - started))
  if [[ ! -e $out/done ]]; then
    tail -n 40 "$folder/console"
    # The logs that the machine shows at its end may be longer than that, and its reason stands before them.
    [[ ! -e $out/failed ]] || cat "$out/failed"
    echo "test-wifi: the machine did not come to its end (limit $limit s)" >&2
    return 2
  fi
  [[ $rounds ]] || "$here/check.py" "$out"
}

conclude
