# run and test do all set-up themselves; everything else is a line or two around `weir`.
.PHONY: run test soak campaigns lint bench reproduce reproduce-full
export CARGO_TERM_QUIET = true

run:        ## the demonstration, in about two minutes
	@scripts/setup run
	@.venv/bin/weir run

test:       ## every test, Rust and Python: side by side where they may, for most of them wait
	@scripts/setup dev
	cargo test --workspace --exclude weir-python --profile tests
	.venv/bin/pytest --numprocesses 4 --dist loadfile -m "not alone" || $(SECOND_LOOK)
	.venv/bin/pytest -m alone || $(SECOND_LOOK)

# What failed runs once more with the machine to itself, and fails the run if it fails there too.
# Both results are printed: a test that needs its second look is a fault to be mended.
SECOND_LOOK = .venv/bin/pytest --last-failed --last-failed-no-failures none

soak:       ## both simulators of faults on new seeds: MINUTES=10 each, from FIRST=1001 on
	@scripts/setup dev
	WEIR_SIMULATION_FIRST=$(FIRST) WEIR_SIMULATION_MINUTES=$(MINUTES) cargo test -q -p weir-transfer \
		--profile tests --test simulation -- --ignored --exact soak --nocapture
	.venv/bin/python tests/calendar/soak_calendar.py --first $(FIRST) --count 1000000 --minutes $(MINUTES)
soak campaigns: export PYTHONPATH = tests
soak: MINUTES = 10
soak: FIRST = 1001

campaigns:  ## the figures of docs/security-appendix.md taken again: kills, damage, hostile peers (half an hour)
	@scripts/setup dev
	.venv/bin/python tests/transfer/campaign_kills.py
	.venv/bin/python tests/transfer/campaign_peers.py
	.venv/bin/python tests/calendar/campaign_kills.py
	.venv/bin/python tests/calendar/campaign_kills.py --victim postgresql --kills 25 --acknowledged 2500
	.venv/bin/python tests/calendar/campaign_kills.py --victim standby --kills 25 --acknowledged 5000
	.venv/bin/python tests/calendar/campaign_kills.py --victim replica --kills 10 --acknowledged 2000
	.venv/bin/python tests/calendar/campaign_peers.py
	.venv/bin/python tests/fuzz/campaign_scenarios.py
	WEIR_FUZZ_MESSAGES=5600000 cargo test -q -p weir-transfer --profile tests --test wire damaged -- --nocapture
	.venv/bin/pytest -q -s tests/calendar/test_calendar_doors.py

lint:       ## formatting, lints, types, the documentation of the crates
	@scripts/setup dev
	cargo fmt --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets --profile tests -- -D warnings
	$(FUZZ_LINT) cargo clippy --manifest-path fuzz/Cargo.toml --profile tests -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --profile tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# What was built to lint the workspace serves here too; libFuzzer, which nothing links, need not be
# compiled.
lint: FUZZ_LINT = CARGO_TARGET_DIR=target CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a

bench:      ## against peers, into out/bench: all, or NAME=emulator|mover|calendar|calendar_load|calendar_restart|planning|control|deadline|fluid|packet|recognition|classifiers|choice|shared|far|wan|relay|desktop
	@scripts/setup bench
	.venv/bin/python -m benches $(NAME)

reproduce:  ## published results beside ours, at reduced size, into docs/reproduction.md: all, or ID=...
	@scripts/setup reproduce
	@.venv/bin/weir reproduce --quick --page docs $(ID)

reproduce-full:  ## the same at full size
	@scripts/setup reproduce
	@.venv/bin/weir reproduce --page docs $(ID)
