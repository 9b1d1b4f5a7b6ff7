#!/usr/bin/env bash
# Runs Linux tests again and again and prints how often each failed, as root:
#
#   repeat_tests.sh order 100          each test that compares order or time (`timed` in tests/namespaces/main.rs), 100 times
#   repeat_tests.sh suite 10           the whole namespace suite, 10 times
#   repeat_tests.sh suite 10 --busy    the same beside builds, one after another, with as many jobs as there are processors
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

# With the eBPF congestion controls, as `make unit` has them: without them the tests of frozen senders would be skipped.
read -r -a features <<<"$(scripts/struct_ops_feature.sh)"
program=$(cargo test --locked --workspace "${features[@]}" --test namespaces --no-run 2>&1 | sed -n 's/.*(\(.*\/namespaces-[0-9a-f]*\)).*/\1/p')
[[ -x $program ]] || { echo "repeat_tests.sh: the tests do not build" >&2; exit 1; }

kept=out/repeat
mkdir -p "$kept"
load_pids=()
log=$(mktemp)
tidy() {
  ((${#load_pids[@]} == 0)) || kill -- "${load_pids[@]/#/-}" 2>/dev/null || true
  rm -f "$log"
}
trap tidy EXIT
if [[ $load == --busy ]]; then
  # In a group of its own, so that compilers end with it.
  setsid bash -c 'while :; do rm -rf "$1/build"; cargo build --quiet --locked -p linkhold --target-dir "$1/build"; done' build "$kept" \
    >/dev/null 2>&1 &
  load_pids+=($!)
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
  order)
    mapfile -t order < <("$program" --list | sed -n 's/^\[timed\] \(.*\): test$/\1/p')
    ((${#order[@]} > 0)) || { echo "repeat_tests.sh: the program names no timed tests" >&2; exit 1; }
    for test in "${order[@]}"; do repeat "$test" --exact "$test"; done
    ;;
  suite) repeat suite ;;
  *) repeat "$what" --exact "$what" ;;
esac
exit "$any_failed"
