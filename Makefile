.DEFAULT_GOAL := help
.PHONY: help run test fuzz lint advisories faults attacks bench soak

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Serve the rules in config/ from memory
	cargo run --locked

# What one reads last is the summary of the most tests, so the fuzzers and the examples in the
# documentation, which `cargo test` alone would run last, come first.
test: ## Run every test; installs what a fresh Debian machine lacks
	scripts/prepare
	scripts/fuzz
	cargo test --locked --doc
	cargo test --locked --lib --bins --tests

fuzz: ## Feed random input to whatever reads what others send, for FUZZ_SECONDS (20)
	scripts/fuzz

# What fails fast comes first. Whoever lacks cargo-deny gets the version that CI has.
lint: ## Check formatting, lints, documentation, and the licences and sources of dependencies
	cargo fmt --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
	cargo deny --version || cargo install --locked cargo-deny --version 0.20.2
	cargo deny --locked check bans licenses sources
	scripts/advisories --if-reachable

advisories: ## Check the dependencies for known vulnerabilities; asks github.com for the database
	scripts/advisories

faults: ## Measure what becomes of requests while Redis fails, and write it to docs/faults.md
	TOLLGATE_FAULTS_TABLE=$(CURDIR)/docs/faults.md cargo test --locked --test it -- faults::

attacks: ## Attack a release build, and print what each attack costs, as docs/security.md has it
	cargo build --locked --release
	TOLLGATE_TEST_PROGRAM=$(CURDIR)/target/release/tollgate \
		cargo test --locked --test it -- hostile::attacks --nocapture --test-threads 1

bench: ## Measure how fast it is, write that to docs/performance.md, and print what the parts cost
	cargo bench --locked --bench performance
	cargo bench --locked --bench micro
	cargo bench --locked --bench redis
	cargo bench --locked --bench leases
	cargo bench --locked --bench shedding
	cargo bench --locked --bench telemetry

soak: ## Load the built program while its rules change every second, for SOAK_SECONDS (600)
	cargo bench --locked --bench soak
