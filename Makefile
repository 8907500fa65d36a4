# run and test do all set-up themselves; everything else is a line or two around `weir`.
.PHONY: run test lint bench reproduce reproduce-full
export CARGO_TERM_QUIET = true

run:        ## the demonstration, in about two minutes
	@scripts/setup run
	@.venv/bin/weir run

test:       ## every test, Rust and Python
	@scripts/setup dev
	cargo test --workspace --exclude weir-python --profile tests
	.venv/bin/pytest

lint:       ## formatting, lints, types
	@scripts/setup dev
	cargo fmt --check
	cargo clippy --workspace --all-targets --profile tests -- -D warnings
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench:      ## against peers, into out/bench: all, or NAME=emulator|mover|calendar|planning|deadline|fluid|packet|recognition|classifiers
	@scripts/setup bench
	.venv/bin/python -m benches $(NAME)

reproduce:  ## published results beside ours, at reduced size, into docs/reproduction.md: all, or ID=...
	@scripts/setup reproduce
	@.venv/bin/weir reproduce --quick --page docs $(ID)

reproduce-full:  ## the same at full size
	@scripts/setup reproduce
	@.venv/bin/weir reproduce --page docs $(ID)
