#!/usr/bin/env bash
# Runs Linux tests again and again and prints how often each failed, as root:
#
#   repeat_tests.sh order 100          each test that compares order or time, 100 times
#   repeat_tests.sh suite 10           the whole namespace suite, 10 times
#   repeat_tests.sh suite 10 --busy    the same beside one busy process per processor, as beside a build
#   repeat_tests.sh NAME 40 [--busy]   one test of the namespace suite, 40 times
#
# The output of each failed run stays in out/repeat/. The exit status is 1 if any run failed. A run in which a test was
# skipped has failed: it counts nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: repeat_tests.sh order|suite|TEST TIMES [--busy]"
what=${1:?$usage} times=${2:?$usage} load=${3:-}
[[ $load == "" || $load == --busy ]] || { echo "$usage" >&2; exit 2; }
((EUID == 0)) || { echo "repeat_tests.sh: the tests need root; they would skip, and this would count nothing" >&2; exit 2; }

# Tests that compare the order or the time of packets.
order=(
  a_silence_holds_and_releases_in_order
  a_scheduled_silence_holds
  an_announced_silence_holds_when_it_begins
  sigterm_lets_go_and_removes_the_rules
  traffic_flows_at_the_radios_return_although_the_agent_was_killed
  a_killed_agents_packets_are_let_go_in_order
  a_killed_guardian_is_replaced
  a_silence_that_nobody_ends_is_over_at_the_maximum
  two_radios_do_not_disturb_each_other
  a_bridged_radio_is_managed
  a_radio_put_into_a_bridge_later_is_managed
  kills_at_random_times_stop_no_transfer
  a_hog_leaves_a_flow_its_share
  a_host_stops_its_senders_by_their_windows
  a_silence_leaves_a_frozen_senders_window_alone
  freezes_doubled_lost_and_out_of_order_stop_no_sender
  freezes_at_random_stop_no_sender
  a_thaw_wakes_senders_whose_timers_have_backed_off
  a_killed_host_leaves_no_sender_frozen
  datagrams_wait_for_the_end_of_a_silence
)

# With the eBPF congestion controls, as `make unit` has them: without them the tests of frozen senders would be skipped.
read -r -a features <<<"$(scripts/struct_ops_feature.sh)"
program=$(cargo test --locked --workspace "${features[@]}" --test namespaces --no-run 2>&1 | sed -n 's/.*(\(.*\/namespaces-[0-9a-f]*\)).*/\1/p')
[[ -x $program ]] || { echo "repeat_tests.sh: the tests do not build" >&2; exit 1; }

kept=out/repeat
mkdir -p "$kept"
load_pids=()
log=$(mktemp)
tidy() {
  ((${#load_pids[@]} == 0)) || kill "${load_pids[@]}" 2>/dev/null || true
  rm -f "$log"
}
trap tidy EXIT
if [[ $load == --busy ]]; then
  for ((cpu = 0; cpu < $(nproc); cpu++)); do
    # A compiler's habits: it computes, allocates, writes files and starts processes.
    while :; do head -c 64M /dev/zero | gzip -1 >/dev/null; done &
    load_pids+=($!)
  done
fi

any_failed=0
# Runs the test program with these arguments so often; prints how many runs failed.
repeat() {
  local name=$1 failed=0 run
  shift
  for ((run = 1; run <= times; run++)); do
    # A test that runs alone says so behind its name.
    if ! "$program" "$@" >"$log" 2>&1 || grep -Eq '(^|\.\.\. )skipped: ' "$log"; then
      failed=$((failed + 1))
      cp "$log" "$kept/$name.$run.log"
      sed -n -e 's/^test \(.*\) \.\.\. FAILED$/  run '"$run"': \1/p' -e 's/^\(test .* \.\.\. \)\?\(skipped: .*\)$/  run '"$run"': \2/p' "$log"
    fi
    if ! grep -q '^test result: .* [1-9][0-9]* passed\|FAILED' "$log"; then
      sed 's/^/  /' "$log" >&2
      echo "repeat_tests.sh: no test ran" >&2
      exit 1
    fi
  done
  printf '%-70s failed %d of %d%s\n' "$name" "$failed" "$times" "${load:+ ($load)}"
  ((failed == 0)) || any_failed=1
}

echo "load average: $(cut -d' ' -f1-3 /proc/loadavg); processors: $(nproc)"
case $what in
  order) for test in "${order[@]}"; do repeat "$test" --exact "$test"; done ;;
  suite) repeat suite ;;
  *) repeat "$what" --exact "$what" ;;
esac
exit "$any_failed"
