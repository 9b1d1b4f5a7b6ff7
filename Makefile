# The only entry points. `make demo` and `make test` do all their own set-up on a fresh machine with Rust.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# A clean checkout would only write what incremental builds read back.
ifeq ($(wildcard $(or $(CARGO_TARGET_DIR),target)/debug/incremental),)
  export CARGO_INCREMENTAL ?= 0
endif
# Measured delivery traces, where someone has them (mahimahi format, one millisecond stamp a line); the demo
# runs on them when given.
LINKHOLD_DATA ?= $(firstword $(wildcard $(CURDIR)/data $(CURDIR)/../shared/data))
export LINKHOLD_DATA
LINKHOLD = $(or $(CARGO_TARGET_DIR),target)/release/linkhold

# `linkhold host` has eBPF congestion controls where this machine can build them: asked for when a recipe runs,
# since `setup` may just have installed what it takes.
STRUCT_OPS = $(shell scripts/struct_ops_feature.sh)

# `make test` draws the same property-test cases each time, so that it fails only for what is in the tree;
# `make soak` draws new ones.
PROPTEST_RNG_SEED ?= 20261121
PROPTEST_CASES ?= 1000
SOAK_CASES ?= 300000

.PHONY: help demo build test unit pages bench-smoke router-page test-wifi wifi-page repeat-linux soak python lint fmt bench bench-beside setup setup-demo setup-host-page reproduction-tables testbed-table trace-table late-table late-table-kernel udp-table udp-kernel udp-quic both-ways host-table host-page page-numbers sense-speed sense-beside router-costs killed-times lab-numbers try-unit try-recipe fifty-kills drawn-cells clean

help: ## Show what there is to run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: setup-demo ## Build the linkhold command (release)
	$(CARGO) build --release --locked -p linkhold $(STRUCT_OPS)

demo: build ## Plain TCP against DSASync on a radio that falls silent; prints a table, writes an HTML report
	$(LINKHOLD) run scenarios/demo.toml --seeds 5 --out out/demo
	@if [[ -n "$(LINKHOLD_DATA)" ]]; then \
	  $(LINKHOLD) run scenarios/trace-lte.toml --seeds 3 --out out/trace-lte; \
	else \
	  echo "No measured traces found: set LINKHOLD_DATA to a folder of mahimahi traces to run scenarios/trace-lte.toml too."; \
	fi
	@echo; echo "Open out/demo/report.html in a browser."

setup: ## Install the system packages that tests need (as root), or say which are missing
	@scripts/setup.sh test

setup-demo:
	@scripts/setup.sh demo

setup-host-page:
	@scripts/setup.sh host-page

test: setup lint unit pages bench-smoke router-page test-wifi python ## Everything CI runs: formatting, clippy, unit, property, scenario, Linux, Wi-Fi and Python tests, numbers and commands of the pages, benchmarks once

unit: ## Rust tests: unit, property, scenario, Linux (as root), and a short run of the fuzz targets
	PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) PROPTEST_CASES=$(PROPTEST_CASES) $(CARGO) test --locked --no-fail-fast --workspace $(STRUCT_OPS) | scripts/failures_last.py

pages: ## README.md and the pages of docs/ say what was measured, and their commands work (built by `unit`)
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/readme_numbers.py --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/testbed_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/driver_page.py --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/host_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/late_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/trace_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/udp_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold scripts/both_ways_table.py --raw --check
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold CARGO="$(CARGO)" STRUCT_OPS="$(STRUCT_OPS)" scripts/page_numbers.py --check
	scripts/repeats_page.py --raw --check
	scripts/wifi_page.py --raw --check
	scripts/soak.py --raw --check
	scripts/page_commits.py
	LINKHOLD=$(or $(CARGO_TARGET_DIR),target)/debug/linkhold python3 -m unittest discover --start-directory scripts/tests
	scripts/try_pages.py $(or $(CARGO_TARGET_DIR),target)/debug/linkhold

bench-smoke: ## Every benchmark once and short, in the tests' build: shows that it works, not how fast
	$(CARGO) test --locked --workspace $(STRUCT_OPS) --bench '*'

router-page: setup ## Run the commands of docs/router.md and others that need root, and compare what they show with what the pages say (as root)
	$(CARGO) test --locked --workspace $(STRUCT_OPS) --test command --no-run
	scripts/try_router_page.py "$${CARGO_TARGET_DIR:-target}/debug/linkhold"

# The command as the tests build it, so that `make test` builds it once.
test-wifi: ## The agent on real Wi-Fi in an emulated machine (as root; fetches a kernel with apt once); skips with its reason
	$(CARGO) test --locked --workspace $(STRUCT_OPS) --test command --no-run
	scripts/wifi/run.sh $(or $(CARGO_TARGET_DIR),target)/debug/linkhold

wifi-page: build ## Measure what the agent does on that Wi-Fi and fill docs/router.md and signals.md with it (as root, on a quiet machine, 17 min)
	LINKHOLD=$(LINKHOLD) scripts/wifi_page.py

# Each line even if one before it found a failure; the exit status says that any did.
repeat-linux: setup ## Tests that compare order or time 100 times each, then namespace suite, plans and testbed tests 10 times free and 10 times beside builds, and fill docs/repeats.md (as root, hours)
	@failed=0; scripts/repeat_tests.sh order 100 || failed=1; \
	for which in suite plans testbed; do \
	  scripts/repeat_tests.sh $$which 10 || failed=1; \
	  scripts/repeat_tests.sh $$which 10 --busy || failed=1; \
	done; exit $$failed

# Properties whose cases are whole simulations grow in proportion (crates/linkhold-testing).
soak: ## Property tests on 300,000 cases each, new ones each time, optimised, with debug assertions; can be stopped and goes on where it was (hours)
	CARGO="$(CARGO)" scripts/soak.py --cases $(SOAK_CASES)

drawn-cells: build ## Look for scenarios, drawn at random, in which DSASync carries less than a plain router (minutes; CELLS=N)
	LINKHOLD=$(LINKHOLD) scripts/drawn_cells.py --cells $(or $(CELLS),200)

python: ## The Python package: built, type-checked and tested in an environment of its own
	python/linkhold/run_tests.sh

lint: ## Formatting and clippy, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --check --manifest-path fuzz/Cargo.toml
	$(CARGO) clippy --locked --workspace --all-targets $(STRUCT_OPS) -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

bench: setup-demo ## Speed of engine and mechanisms, as ratios measured in one run; fails where one misses its aim
	@missed=; for which in "linkhold-sim" "linkhold-core" "linkhold-linux --bench agent" "linkhold-radio" "linkhold-sense"; do \
	  $(CARGO) bench --locked -p $$which || missed+=" $${which%% *}"; \
	done; \
	[[ -z $$missed ]] || { echo "an aim was missed, or a benchmark failed:$$missed" >&2; exit 1; }

bench-beside: build ## Speed beside that of another commit, in turns: make bench-beside COMMIT=HEAD~1 (on a quiet machine, minutes)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" scripts/bench_beside.py $(or $(COMMIT),HEAD~1)

reproduction-tables: build ## Measure the paper's figures again and fill the tables of reproductions/ with them
	scripts/reproduction_tables.py

testbed-table: build setup ## Measure docs/testbed against this machine's kernel (as root); can be stopped and goes on where it was
	scripts/testbed_table.py

trace-table: build ## Measure docs/traces.md on the recorded links of LINKHOLD_DATA, in the simulator (a minute)
	scripts/trace_table.py

late-table: build ## Measure docs/late.md: silences told late, rates told by nobody, over four routers, in the simulator (minutes)
	scripts/late_table.py

late-table-kernel: build setup ## Measure the kernel's part of docs/late.md (as root; 16 hours of runs, as many side by side as the host keeps up with); can be stopped and goes on where it was
	LINKHOLD=$(LINKHOLD) scripts/late_table.py --kernel

udp-table: build ## Measure docs/udp.md in the simulator (minutes)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" scripts/udp_table.py --sim

udp-kernel: build setup ## Measure the kernel's part of docs/udp.md, with the simulator beside it (as root, ten minutes); can be stopped and goes on where it was
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" scripts/udp_table.py --kernel

udp-quic: build setup ## Measure the QUIC part of docs/udp.md on the testbed (as root, half an hour); can be stopped and goes on where it was
	LINKHOLD=$(LINKHOLD) scripts/udp_table.py --quic

both-ways: build setup ## Measure docs/both-ways.md, downloads beside uploads on the kernel and in the simulator (as root, a quarter of an hour); can be stopped and goes on where it was
	LINKHOLD=$(LINKHOLD) scripts/both_ways_table.py

host-table: build setup ## Measure docs/testbed/host.md: a host's own sender across silences (as root); can be stopped and goes on where it was
	scripts/host_table.py

host-page: build setup-host-page ## Measure the tables of docs/host.md: what a silence costs a host's sender, what the kernel refuses (as root, on a quiet machine)
	LINKHOLD=$(LINKHOLD) scripts/host_page.py

page-numbers: build ## Fill docs/mesh.md, jitter.md, lookahead.md, sense.md and router.md with what simulations and tests give now (seconds)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" STRUCT_OPS="$(STRUCT_OPS)" scripts/page_numbers.py

sense-speed: build ## Measure how fast `linkhold sense` is and fill docs/sense.md with it (on a quiet machine)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" scripts/page_numbers.py --speed

sense-beside: build setup ## Measure how soon an agent and a host hear of `linkhold sense` and fill docs/sense.md with it (as root, 50 runs)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" scripts/page_numbers.py --beside 50

router-costs: build setup ## Measure what the agent costs and fill docs/router.md with it (as root, on a quiet machine)
	LINKHOLD=$(LINKHOLD) scripts/router_costs.py

killed-times: build setup ## Measure how soon traffic goes on after the agent was killed in a silence and fill docs/router.md with it (as root, 10 runs)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" STRUCT_OPS="$(STRUCT_OPS)" scripts/page_numbers.py --killed 10

lab-numbers: build setup ## Measure what a flood, signed flows and a second radio do on the lab and fill docs/router.md with it (as root, 5 runs)
	LINKHOLD=$(LINKHOLD) CARGO="$(CARGO)" STRUCT_OPS="$(STRUCT_OPS)" scripts/page_numbers.py --lab 5

try-unit: build setup ## The packaged systemd unit under a systemd in namespaces of its own: started, killed, hung, stopped (as root)
	packaging/try-unit.sh $(LINKHOLD)

try-recipe: ## CONTRIBUTING's recipe "Add a mechanism", tried with a dummy in a copy of the tree: built, run, and its diff compared (minutes)
	CARGO="$(CARGO)" scripts/try_recipe.py

fifty-kills: setup ## Kill the agent 50 times at random under load: no transfer stops, no byte is wrong (as root, minutes)
	$(CARGO) test --locked --workspace $(STRUCT_OPS) --test namespaces -- --ignored fifty_kills

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf out
