#!/usr/bin/env bash
# Runs Linux tests again and again, prints how often each failed, and writes that to docs/repeats.md, as root:
#
#   repeat_tests.sh order 100          each test that compares order or time (`timed` in
#                                      tests/namespaces/main.rs), 100 times
#   repeat_tests.sh suite 10           the whole namespace suite, 10 times
#   repeat_tests.sh plans 10           the plans on both stacks, 10 times
#   repeat_tests.sh testbed 10         the tests of the testbed's own conduct, 10 times
#   repeat_tests.sh suite 10 --busy    the same beside builds, one after another, with as many jobs as there
#                                      are processors
#   repeat_tests.sh NAME 40 [--busy]   one test of the namespace suite, 40 times
#
# The output of each run that failed or skipped stays in out/repeat/ (KEPT names another folder). The exit
# status is 1 if any run failed. A run in which a test was skipped counts apart: it says less than one that
# passed. Where nothing passed, nothing was tried, and that is an error.
#
# The page takes only what was built here, from a tree without changes. PROGRAM names a test program that is
# built already, for a trial that the page does not take.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: repeat_tests.sh order|suite|plans|testbed|TEST TIMES [--busy]"
what=${1:?$usage} times=${2:?$usage} load=${3:-}
[[ $load == "" || $load == --busy ]] || { echo "$usage" >&2; exit 2; }
[[ $times =~ ^[1-9][0-9]*$ ]] || { echo "$usage" >&2; exit 2; }
((EUID == 0)) || { echo "repeat_tests.sh: the tests need root; they would skip, and this would count nothing" >&2; exit 2; }

case $what in
  plans | testbed) target=$what ;;
  *) target=namespaces ;;
esac
if [[ -n ${PROGRAM:-} ]]; then
  program=$PROGRAM
else
  # What is built. When the runs end, hours later, the tree may have another commit.
  built=$(scripts/repeats_page.py commit)
  # With the eBPF congestion controls, as `make unit` has them: without them the tests of frozen senders would
  # be skipped.
  read -r -a features <<<"$(scripts/struct_ops_feature.sh)"
  program=$(cargo test --locked --workspace "${features[@]}" --test "$target" --no-run 2>&1 | sed -n "s/.*(\(.*\/$target-[0-9a-f]*\)).*/\1/p")
  [[ $built == "$(scripts/repeats_page.py commit)" ]] || built=
fi
[[ -x $program ]] || { echo "repeat_tests.sh: the tests do not build" >&2; exit 1; }

kept=${KEPT:-out/repeat}
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

# The tests in the log that failed (FAILED), or were skipped with a reason (ignored), a line each: the name, and the
# reason. What a test prints stands between its name and how it ended, on the same line or on others.
ended() {
  awk -v how="$1" '
    { rest = $0 }
    /^test .* \.\.\. / {
      name = $2 == "[timed]" ? $3 : $2
      rest = substr($0, index($0, " ... ") + 5)
    }
    how == "FAILED" && rest ~ /FAILED$/ { print name }
    how == "ignored" && rest ~ /^ignored \(.*\)$/ { print name, substr(rest, 10, length(rest) - 10) }' "$log"
}

any_failed=0
# Runs the test program with these arguments so often; prints how many runs failed, and how many skipped.
repeat() {
  local name=$1 failed=0 skipped=0 run status faults=() skips=()
  shift
  for ((run = 1; run <= times; run++)); do
    status=0
    "$program" "$@" >"$log" 2>&1 || status=$?
    if ! grep -q '^test result: .* [1-9][0-9]* passed\|FAILED' "$log"; then
      sed 's/^/  /' "$log" >&2
      echo "repeat_tests.sh: no test ran" >&2
      exit 1
    fi
    # A test that found on its way that it cannot be made here says why in brackets. The longer ones, which
    # are never run here, say nothing.
    if ((status != 0)); then
      failed=$((failed + 1))
      mapfile -t -O "${#faults[@]}" faults < <(ended FAILED)
    elif [[ -n $(ended ignored) ]]; then
      skipped=$((skipped + 1))
      mapfile -t -O "${#skips[@]}" skips < <(ended ignored | cut -d' ' -f1)
    else
      continue
    fi
    cp "$log" "$kept/${name//\//_}.$run.log"
    ended FAILED | sed "s/^/  run $run: /"
    ended ignored | sed "s/^\([^ ]*\)/  run $run: \1 skipped:/"
  done
  printf '%-70s failed %d of %d%s%s\n' "$name" "$failed" "$times" "$( ((skipped == 0)) || echo ", skipped a test in $skipped")" "${load:+ ($load)}"
  ((failed == 0)) || any_failed=1
  if [[ -z ${PROGRAM:-} ]]; then
    scripts/repeats_page.py add "$name" --commit "$built" --runs "$times" --failed "$failed" --skipped "$skipped" ${load:+--busy} \
      --failures "${faults[@]}" --skips "${skips[@]}"
  fi
}

echo "load average: $(cut -d' ' -f1-3 /proc/loadavg); processors: $(nproc)"
case $what in
  order)
    mapfile -t order < <("$program" --list | sed -n 's/^\[timed\] \(.*\): test$/\1/p')
    ((${#order[@]} > 0)) || { echo "repeat_tests.sh: the program names no timed tests" >&2; exit 1; }
    for test in "${order[@]}"; do repeat "$test" --exact "$test"; done
    ;;
  suite | plans | testbed) repeat "$what" ;;
  *) repeat "$what" --exact "$what" ;;
esac
exit "$any_failed"
