# The only entry points. `make demo` and `make test` do all their own set-up on a fresh machine with Rust.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Measured delivery traces, where someone has them (see docs/traces.md); the demo runs on them when given.
LINKHOLD_DATA ?= $(firstword $(wildcard $(CURDIR)/data $(CURDIR)/../shared/data))
export LINKHOLD_DATA
LINKHOLD = target/release/linkhold

.PHONY: help demo build test unit lint fmt bench fuzz-smoke setup setup-demo clean

help: ## Show what there is to run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: setup-demo ## Build the linkhold command (release)
	$(CARGO) build --release --locked -p linkhold

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

test: setup lint unit ## Everything CI runs: formatting, clippy, unit, property, scenario, Linux and Python tests

unit:
	$(CARGO) test --locked --workspace

lint: ## Formatting and clippy, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

bench: setup-demo ## Speed of engine and mechanisms, as ratios measured in one run
	$(CARGO) bench --locked -p linkhold-sim
	$(CARGO) bench --locked -p linkhold-core

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf out
