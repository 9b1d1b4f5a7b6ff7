#!/usr/bin/env bash
# Builds the Python module in a virtual environment under target/ and runs its tests. Quiet when all is well.
#   PYTHON=python3.12 ./run_tests.sh -k sweep       another interpreter (3.10 or later); arguments go to pytest
#   LINKHOLD_BIN=...                                the command to compare with; by default a debug build, made here
set -euo pipefail
cd "$(dirname "$0")"

root=$(cd ../.. && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
python=${PYTHON:-python3}

# Runs a command, and prints its output only if it fails.
quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "python tests: $what failed: $*" >&2
    exit 1
  fi
  rm -f "$log"
}

if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  echo "python tests: $python is not a Python of 3.10 or later with venv (Debian: apt-get install python3-venv)" >&2
  exit 1
fi

# One environment for each interpreter, set of versions and this script; a change of any makes a new one.
key=$({ "$python" -VV; command -v "$python"; cat requirements-test.txt "${BASH_SOURCE[0]##*/}"; } | sha256sum | cut -c1-16)
venv=$CARGO_TARGET_DIR/python/venv-$key
if [[ ! -e $venv/complete ]]; then
  rm -rf "$venv"
  quietly "making a virtual environment" "$python" -m venv "$venv"
  quietly "installing packages" "$venv/bin/pip" install --quiet --disable-pip-version-check \
    --constraint requirements-test.txt maturin mypy pytest ipython
  touch "$venv/complete"
fi

export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
quietly "cargo fmt" cargo fmt --check
if ! cargo metadata --quiet --locked --format-version 1 >/dev/null 2>&1; then
  # This is a workspace of its own: a crate's new dependency has to be locked here too.
  echo "python tests: Cargo.lock does not fit the crates: run 'cargo update --workspace' in $PWD and commit it" >&2
  exit 1
fi
if [[ -z ${LINKHOLD_BIN:-} ]]; then
  # As the tests build it: without their dependencies some crates would have other features, and be built a second time.
  # shellcheck disable=SC2046
  quietly "building the command" \
    cargo test --quiet --locked --manifest-path "$root/Cargo.toml" --workspace $("$root/scripts/struct_ops_feature.sh") \
    --test command --no-run
fi
# As its users install it, with what it needs of others by its own extras; only the native part is built unoptimised, which takes less long.
PIP_CONSTRAINT=$PWD/requirements-test.txt MATURIN_PEP517_ARGS="--locked --profile dev" \
  quietly "installing the module" pip install --quiet "$PWD[plots,pandas,dask]"
quietly "mypy" mypy --cache-dir "$CARGO_TARGET_DIR/python/mypy"
PYTHONDONTWRITEBYTECODE=1 python -m pytest -p no:cacheprovider "$@"
