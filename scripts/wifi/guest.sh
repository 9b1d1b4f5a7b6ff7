#!/bin/bash
# What runs in the virtual machine of `make test-wifi`: two access points, three stations, the agent between wire and
# air, and everything that silences a radio. It measures and records; check.py judges.
#   guest.sh LINKHOLD FOLDER           what `make test-wifi` judges
#   guest.sh LINKHOLD FOLDER ROUNDS    downloads through channel switches alone, with the agent and without in turns
set -u
LINKHOLD=/run/program FOLDER=$2 HERE=$(dirname "$0") ROUNDS=${3:-}
: > "$FOLDER/booted"
# Files lie in memory until the end: what goes to the host's file system may take as long as the host likes, be it a
# line of a log or a page of a program.
OUT=/run/out
mkdir $OUT
cp "$1" $LINKHOLD
trap 'cp $OUT/* "$FOLDER"; sync; [[ -e $OUT/passed ]] && : > "$FOLDER/done"' EXIT
# Who gives this script its time (run.sh) ends it by this. What it waited for is what did not end.
trap 'echo "guest: out of time at: $BASH_COMMAND (${FUNCNAME[0]:-main})" | tee "$OUT/failed"; exit 1' TERM
SECONDS_OF_SWITCHES=19

fail() {
  echo "guest: $*" | tee "$OUT/failed"
  tail -n 20 "$OUT"/*.log
  exit 1
}
# Notes when something was asked of a radio: `mark NAME`.
mark() { echo "$(date +%s.%6N) $*" | tee -a "$OUT/marks"; }
one() { hostapd_cli -p /run/one -i wlan0 "$@"; }
two() { hostapd_cli -p /run/two -i wlan3 "$@"; }
# until_true TENTHS COMMAND...
until_true() {
  local left=$1
  shift
  while ! "$@" > /dev/null 2>&1; do
    left=$((left - 1))
    ((left > 0)) || return 1
    sleep 0.1
  done
}
stations() { (($(iw dev "$1" station dump | grep -c '^Station') == $2)); }

# What a veth receives waits for one processor: packets of one flow in two processors' backlogs overtake each
# other. one_receiver INTERFACE [ip netns exec NAME]
one_receiver() {
  local interface=$1
  "${@:2}" sh -c "for queue in /sys/class/net/$interface/queues/rx-*; do echo 1 > \$queue/rps_cpus; done"
}
# access_point NAME INTERFACE SSID ADDRESS CHANNEL-LINES...
access_point() {
  local name=$1 interface=$2 ssid=$3 address=$4
  shift 4
  printf '%s\n' interface="$interface" ssid="$ssid" country_code=US ieee80211d=1 ieee80211h=1 ieee80211n=1 \
    wmm_enabled=1 ctrl_interface=/run/"$name" "$@" > /run/"$name".conf
  hostapd -t -B -f "$OUT/hostapd-$name.log" /run/"$name".conf > /dev/null || fail "hostapd $name"
  ip addr add "$address" dev "$interface"
}

# station NUMBER SSID MHZ NET: wlanNUMBER moves to a namespace of its own and associates.
station() {
  local n=$1 radio
  radio=$(cat /sys/class/net/wlan"$n"/phy80211/name)
  ip netns add sta"$n"
  iw phy "$radio" set netns name sta"$n" || fail "move $radio"
  ip -n sta"$n" link set lo up
  ip -n sta"$n" link set wlan"$n" up
  printf 'ctrl_interface=/run/wpa%s\nnetwork={\n ssid="%s"\n key_mgmt=NONE\n scan_freq=%s\n}\n' "$n" "$2" "$3" > /run/wpa"$n".conf
  ip netns exec sta"$n" wpa_supplicant -t -B -f "$OUT/station-$n.log" -D nl80211 -i wlan"$n" -c /run/wpa"$n".conf > /dev/null ||
    fail "wpa_supplicant $n"
  ip -n sta"$n" addr add "$4.1$n/24" dev wlan"$n"
  ip -n sta"$n" route add default via "$4.1"
}

# Datagrams to station 2, 100 a second from the wire and 200 from the access point itself, which broadcasts them:
# begin_air NAME, end_air NAME. Who hears them on the air tells when a station is there, and what is lost (returns.py).
begin_air() {
  local in_station=(ip netns exec sta2) on_wire=(ip netns exec ch) probe=(python3 "$HERE/probe.py")
  "${probe[@]}" air wlan0 7004 7005 "$OUT/air-$1-point" &
  hearing=($!)
  "${in_station[@]}" "${probe[@]}" air wlan2 7004 7005 "$OUT/air-$1-station" &
  hearing+=($!)
  until_true 100 test -e "$OUT/air-$1-point" -a -e "$OUT/air-$1-station" || fail "nobody listens to the air"
  "${on_wire[@]}" "${probe[@]}" send 10.91.2.12 7004 0-99999 100 0.01 &
  sending=($!)
  "${probe[@]}" send 10.91.2.255 7005 0-99999 100 0.005 &
  sending+=($!)
  until_true 100 sh -c 'ss -lun | grep -q :7005 && ip netns exec ch ss -lun | grep -q :7004' || fail "nobody sends"
}
end_air() {
  local process
  # One who has read nothing, or does not end, waits for something: this says for what.
  for process in "${hearing[@]}"; do
    echo "$1: $(cut -d' ' -f2,3,14,15 "/proc/$process/stat") in $(< "/proc/$process/wchan")"
  done >> "$OUT/hearing"
  kill "${sending[@]}" "${hearing[@]}"
  wait "${hearing[@]}" || fail "who listened to the air"
  # Broadcasts of the access point itself come whatever the agent does: without any, nothing was measured.
  [[ -s $OUT/air-$1-point && -s $OUT/air-$1-station ]] || fail "who listened to the air heard nothing: $(< "$OUT/hearing")"
}
# Six channel switches in 19 s, every other one with blocktx, under a download of 15 Mbit/s: switches NAME
switches() {
  local channel=2437 number
  ip netns exec sta1 iperf3 -c 10.91.1.2 -R -t $SECONDS_OF_SWITCHES -b 15M -J > "$OUT/iperf-$1.json" &
  local download=$!
  sleep 2
  for number in 1 2 3 4 5 6; do
    mark "switch $((number % 2 ? 0 : 1))"
    if ((number % 2)); then one chan_switch 5 $channel ht; else one chan_switch 5 $channel ht blocktx; fi > /dev/null
    ((channel = channel == 2437 ? 2412 : 2437))
    sleep 2.7
  done
  wait $download || fail "the download ($1)"
}

uname -r > "$OUT/kernel"
modprobe mac80211_hwsim radios=5 || fail "mac80211_hwsim"
iw reg set US
sleep 0.5
# wlan3 stands on a channel that radars own, so it listens for 60 s first; meanwhile the rest goes on.
access_point two wlan3 radar 10.91.3.1/24 hw_mode=a channel=52
access_point one wlan0 linkhold 10.91.2.1/24 hw_mode=g channel=1
ip netns add ch
ip -n ch link set lo up
ip link add wired0 type veth peer name eth0 netns ch
ip addr add 10.91.1.1/24 dev wired0
ip link set wired0 up
one_receiver wired0
one_receiver eth0 ip netns exec ch
ip -n ch addr add 10.91.1.2/24 dev eth0
ip -n ch link set eth0 up
ip -n ch route add default via 10.91.1.1
sysctl -qw net.ipv4.ip_forward=1
station 1 linkhold 2412 10.91.2
station 2 linkhold 2412 10.91.2
until_true 200 stations wlan0 2 || fail "the stations do not associate"
ip netns exec ch busybox ping -qc 2 10.91.2.11 > /dev/null || fail "no way to the station"
ip netns exec ch iperf3 -s -D
# A silence, and a datagram in it, may last for longer than by default: another agent takes seconds to start and to end in
# this machine, a minute where the machine itself stands still.
printf '%s\n' 'wired = ["wired0"]' 'radio = ["wlan0", "wlan3"]' '[silence]' 'max = "120s"' '[datapath]' 'backend = "nftables"' \
  '[mechanism]' 'name = "dsasync"' 'datagram_max_age = "120s"' > /run/agent.toml
start_agent() {
  LINKHOLD_LOG=debug $LINKHOLD agent --config /run/agent.toml >> "$OUT/agent.txt" 2>&1 &
  agent=$!
  until_true 100 "$LINKHOLD" status || fail "the agent does not answer: $(tail -n 5 "$OUT/agent.txt")"
}
stop_agent() {
  kill $agent
  wait $agent || fail "the agent's end"
}
# The senders of a host, frozen by eBPF through a silence in which a timer expires: Debian's kernel is older than what the
# congestion controls may do on a newer one (docs/host.md). The host stands at a station, whose silence the agent does not see.
host_by_ebpf() {
  local socket=/run/host.sock in_station=(ip netns exec sta2) host upload
  printf '%s\n' 'radio = ["wlan2"]' 'radio_events = "none"' 'freeze = "kernel"' '[control]' "socket = \"$socket\"" > /run/host.toml
  "${in_station[@]}" $LINKHOLD host --config /run/host.toml > "$OUT/host.txt" 2>&1 &
  host=$!
  until_true 100 "$LINKHOLD" status --socket $socket || fail "the host does not answer: $(cat "$OUT/host.txt")"
  "${in_station[@]}" iperf3 -c 10.91.1.2 -C linkhold_cubic -n 4M -b 5M > "$OUT/host-upload.txt" &
  upload=$!
  sleep 2
  $LINKHOLD signal freeze --socket $socket --cause primary-user
  "${in_station[@]}" tc qdisc replace dev wlan2 root netem loss 100% || fail "no silence at the station"
  sleep 1.5
  "${in_station[@]}" tc qdisc del dev wlan2 root
  $LINKHOLD signal thaw --socket $socket --cause primary-user
  wait $upload || fail "the host's upload"
  $LINKHOLD status --socket $socket --json > "$OUT/status-host.json" || fail "the host's status"
  kill $host
  wait $host || fail "the host's end"
  sysctl -n net.ipv4.tcp_available_congestion_control > "$OUT/congestion-after"
}
# A host that asks its Wi-Fi for the signal-to-noise ratio, while its access point sends strongly and weakly:
# station 2, whose gate is between the two. What iw prints stands beside it. The noise is one that no radio
# tells by default.
host_by_signal() {
  local socket=/run/snr.sock in_station=(ip netns exec sta2) host upload strength
  printf '%s\n' 'radio = ["wlan2"]' 'radio_events = "none"' 'freeze = "window"' '[control]' "socket = \"$socket\"" '[snr]' \
    'nl80211 = true' 'noise_dbm = -85' '[mechanism]' 'name = "snr-gate"' 'rule = "hysteresis"' 'threshold = "45dB"' \
    'margin = "2dB"' > /run/snr.toml
  LINKHOLD_LOG=debug "${in_station[@]}" $LINKHOLD host --config /run/snr.toml > "$OUT/snr.txt" 2>&1 &
  host=$!
  until_true 100 "$LINKHOLD" status --socket $socket || fail "the host does not answer: $(tail -n 5 "$OUT/snr.txt")"
  # Something for the station to hear, and for the gate to stop. It goes on until the gate has shut, however long a machine
  # that stands still takes for that, and its server serves nobody else.
  ip netns exec ch iperf3 -s -1 -D -p 5202
  until_true 100 sh -c 'ip netns exec ch ss -ltn | grep -q :5202' || fail "no server for the upload past the gate"
  "${in_station[@]}" iperf3 -c 10.91.1.2 -p 5202 -t 300 -b 1M > "$OUT/snr-upload.txt" &
  upload=$!
  sleep 1
  for strength in strong weak; do
    # hwsim hears a frame 50 dB weaker than it was sent.
    iw dev wlan0 set txpower fixed $([[ $strength == strong ]] && echo 2000 || echo 0) || fail "no other power"
    sleep 0.7
    mark "signal $strength"
    sleep 1
    "${in_station[@]}" iw dev wlan2 station dump > "$OUT/iw-station-$strength"
    "${in_station[@]}" iw dev wlan2 survey dump > "$OUT/iw-survey-$strength"
    mark "signal $strength was"
  done
  iw dev wlan0 set txpower auto || fail "no power as before"
  kill $upload || fail "the upload past the gate ended by itself: $(cat "$OUT/snr-upload.txt")"
  wait $upload
  $LINKHOLD status --socket $socket --json > "$OUT/status-snr.json" || fail "the host's status"
  kill $host
  wait $host || fail "the host's end"
}
# Another agent, of a radio that nobody uses, starts and ends while the first one holds 100 datagrams.
another_agent() {
  local other=/run/other.sock receiver pid
  printf '%s\n' 'instance = "other"' 'wired = ["wired0"]' 'radio = ["other0"]' 'radio_events = "none"' '[datapath]' \
    'backend = "nftables"' 'queue = 4810' '[control]' "socket = \"$other\"" > /run/other.toml
  ip link add other0 type dummy
  ip netns exec sta1 python3 "$HERE/probe.py" receive 7002 "$OUT/held-datagrams" 199 120 &
  receiver=$!
  until_true 50 sh -c 'ip netns exec sta1 ss -lun | grep -q :7002' || fail "nobody receives datagrams"
  ip netns exec ch python3 "$HERE/probe.py" send 10.91.2.11 7002 0-20 200 0.01
  $LINKHOLD signal freeze --radio wlan0 --for 110s > /dev/null || fail "no silence"
  ip netns exec ch python3 "$HERE/probe.py" send 10.91.2.11 7002 100-199 200 0.005
  $LINKHOLD status --json > "$OUT/status-held.json" || fail "status"
  $LINKHOLD agent --config /run/other.toml > "$OUT/other.txt" 2>&1 &
  pid=$!
  until_true 300 "$LINKHOLD" status --socket $other || fail "the other agent does not answer: $(tail -n 5 "$OUT/other.txt")"
  nft list ruleset > "$OUT/ruleset-two"
  kill $pid
  wait $pid || fail "the other agent's end"
  $LINKHOLD status --json > "$OUT/status-still-held.json" || fail "status"
  $LINKHOLD signal thaw --radio wlan0 > /dev/null
  wait $receiver || fail "the receiver of datagrams"
}
# An agent whose rules are nftables', and a bridge that is made after its start, as hostapd makes one: two cables between
# namespaces of their own. iptables joins in for what crosses it, and everything goes with the agent.
bridged_later() {
  local socket=/run/bridged.sock port pid
  for port in wire:1 air:2; do
    ip netns add "${port%:*}"
    ip -n "${port%:*}" link set lo up
  done
  ip netns add bs
  for port in wire:1 air:2; do
    ip link add "${port%:*}0" netns bs type veth peer name eth0 netns "${port%:*}"
    ip -n bs link set "${port%:*}0" up
    ip -n "${port%:*}" addr add "10.93.0.1${port#*:}/24" dev eth0
    ip -n "${port%:*}" link set eth0 up
    one_receiver "${port%:*}0" ip netns exec bs
    one_receiver eth0 ip netns exec "${port%:*}"
  done
  printf '%s\n' 'instance = "bridged"' 'wired = ["wire0"]' 'radio = ["air0"]' 'radio_events = "none"' '[datapath]' 'queue = 4910' \
    '[control]' "socket = \"$socket\"" > /run/bridged.toml
  ip netns exec bs $LINKHOLD agent --config /run/bridged.toml > "$OUT/bridged.txt" 2>&1 &
  pid=$!
  until_true 100 "$LINKHOLD" status --socket $socket || fail "no agent for the bridge: $(tail -n 5 "$OUT/bridged.txt")"
  $LINKHOLD status --socket $socket | grep -q 'by nftables:' || fail "the rules are not nftables': $($LINKHOLD status --socket $socket)"
  modprobe br_netfilter || fail "br_netfilter"
  ip netns exec bs sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
  ip -n bs link add br0 type bridge
  ip -n bs addr add 10.93.0.1/24 dev br0
  ip -n bs link set br0 up
  ip -n bs link set wire0 master br0
  ip -n bs link set air0 master br0
  until_true 200 sh -c "$LINKHOLD status --socket $socket | grep -q 'bridges by iptables'" ||
    fail "iptables does not join in: $($LINKHOLD status --socket $socket) $(tail -n 5 "$OUT/bridged.txt")"
  ip netns exec air iperf3 -s -1 -D
  until_true 50 sh -c 'ip netns exec air ss -ltn | grep -q :5201' || fail "nobody listens behind the bridge"
  ip netns exec wire timeout 60 iperf3 -c 10.93.0.12 -n 2M > "$OUT/bridged-iperf.txt" || fail "nothing crosses the bridge: $(cat "$OUT/bridged-iperf.txt")"
  $LINKHOLD status --socket $socket --json > "$OUT/status-bridged.json" || fail "status"
  { ip netns exec bs nft list ruleset; ip netns exec bs iptables -t mangle -S; } > "$OUT/ruleset-bridged" 2>&1
  kill $pid
  wait $pid || fail "the end of the agent for the bridge"
  { ip netns exec bs nft list ruleset; ip netns exec bs iptables -t mangle -S; } > "$OUT/ruleset-bridged-after" 2>&1
  for port in wire air bs; do ip netns del $port; done
}
for round in $(seq 1 "${ROUNDS:-0}"); do
  for longer in 0 30; do
    tc -n ch qdisc replace dev eth0 root netem delay ${longer}ms limit 5000 || fail "no longer round trip"
    switches "$longer-$round-without"
    start_agent
    switches "$longer-$round-with"
    $LINKHOLD status --json > "$OUT/status-$longer-$round.json" || fail "status"
    stop_agent
  done
done
if [[ $ROUNDS ]]; then
  : > "$OUT/passed"
  exit
fi
mount -t tracefs none /sys/kernel/tracing || fail "no trace"
python3 "$HERE/record.py" "$OUT" &
record=$!
until_true 100 test -s "$OUT/record-0" -a -s "$OUT/record-1" || fail "the recorders do not start"
grep . /sys/class/net/wlan*/ifindex > "$OUT/ifindex"

bridged_later
mark "doctor"
$LINKHOLD doctor agent > "$OUT/doctor" || fail "doctor: $(cat "$OUT/doctor")"
$LINKHOLD doctor host > "$OUT/doctor-host" || fail "doctor: $(cat "$OUT/doctor-host")"
grep -q "built without eBPF" "$OUT/doctor-host" || host_by_ebpf
host_by_signal
mark "without"
begin_air without
switches without
end_air without
# A flow table of the firewall's that has the agent's interfaces, as OpenWrt's has; it goes once the agent has
# been seen to name it.
nft 'add table inet fw4; add flowtable inet fw4 ft { hook ingress priority 0; devices = { wlan0, wired0 }; }' || fail "no flow table"
$LINKHOLD doctor agent --config /run/agent.toml > "$OUT/doctor-flow-table"
start_agent
$LINKHOLD status --json > "$OUT/status-flow-table.json" || fail "status"
nft list ruleset > "$OUT/ruleset"
nft delete table inet fw4 || fail "the flow table stays"
$LINKHOLD doctor agent --config /run/agent.toml > "$OUT/doctor-no-flow-table"
mark "with"
begin_air with
switches with
end_air with

# fq_codel sorts by the sender's own hash of a flow, which Linux draws anew at a timeout: a copy then overtakes what
# stands in the queue. Behind a plain queue the order is the one in which the agent let packets go.
tc qdisc replace dev wlan0 root pfifo limit 1000 || fail "no plain queue"
python3 "$HERE/probe.py" capture 7001 "$OUT/packets" 14 &
capture=$!
ip netns exec ch python3 "$HERE/probe.py" serve 7001 8 &
sleep 1.5
ip netns exec sta1 python3 "$HERE/probe.py" fetch 10.91.1.2 7001 "$OUT/probe" &
probe=$!
sleep 1.5
mark "scan"
iw dev wlan0 scan trigger ap-force freq 2412 2437 || fail "the access point does not scan"
sleep 1.2
mark "passive scan"
iw dev wlan0 scan trigger ap-force freq 2412 2437 passive || fail "the access point does not scan passively"
sleep 1.2
mark "away"
iw dev wlan0 offchannel 2462 300 || fail "the access point does not leave its channel"
sleep 1.2
mark "stay"
iw dev wlan0 offchannel 2412 100
wait $probe || fail "the probe"
wait $capture || fail "the capture"
# What a host hears of its access point: the dumps of recorded_dumps.txt. Before a scan the survey names no
# channel. iw (5.19) was twice seen to spin for ever instead of waiting for the scan.
mark "station scan"
until_true 50 timeout 5 ip netns exec sta1 iw dev wlan1 scan freq 2412 2437 || fail "the station does not scan"
ip netns exec sta1 python3 "$HERE/record.py" "$OUT" --dumps wlan1 || fail "the dumps"
mark "another agent"
another_agent

until_true 900 sh -c 'hostapd_cli -p /run/two -i wlan3 status | grep -q state=ENABLED' || fail "the check for radars does not end"
station 4 radar 5260 10.91.3
until_true 200 stations wlan3 1 || fail "the station does not associate on the radar's channel"
sleep 0.5
# 5 Mbit/s to a station of the other radio, before, during and after the radar. The quiet time is two halves.
ip netns exec sta1 python3 "$HERE/probe.py" receive 7003 "$OUT/beside-radar" 4499 20 &
receiver=$!
until_true 50 sh -c 'ip netns exec sta1 ss -lun | grep -q :7003' || fail "nobody receives datagrams"
ip netns exec ch python3 "$HERE/probe.py" send 10.91.2.11 7003 0-4499 1250 0.002 &
sleep 4
mark "radar"
echo 1 > "/sys/kernel/debug/ieee80211/$(cat /sys/class/net/wlan3/phy80211/name)/hwsim/dfs_simulate_radar"
# Nothing else starts while the flow lasts: each program that this machine starts delays it.
wait $receiver || fail "the receiver of datagrams"
two status | sed -n 's/^freq=//p' > "$OUT/moved-to"

# The access point goes down in the middle of a silence of seconds.
mark "long"
one chan_switch 50 2462 ht blocktx > /dev/null
sleep 1
mark "down"
one disable > /dev/null
sleep 1
$LINKHOLD status --json > "$OUT/status-down.json" || fail "status"
one enable > /dev/null
# Stations that were cut off while they waited for a switch do not always come back (Linux 6.1), so nobody waits
# for them.
until_true 100 sh -c 'hostapd_cli -p /run/one -i wlan0 status | grep -q state=ENABLED' || fail "the access point does not come back"
sleep 0.5
# The agent looks for flow tables once a minute. It has run for that long; the rest is what a busy machine
# takes for a look.
until_true 100 sh -c "! $LINKHOLD status | grep -q 'flow table'"
$LINKHOLD status > "$OUT/status" || fail "status"
$LINKHOLD status --json > "$OUT/status.json" || fail "status"
mark "end"
stop_agent
nft list ruleset > "$OUT/ruleset-after"
cp /sys/kernel/tracing/trace "$OUT/trace"
pkill -P $record
kill $record
: > "$OUT/passed"
