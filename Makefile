# Everything a contributor or CI runs. `make` alone lists the targets.
# Needed: Go and make. The rest is a pinned Go module (internal/tools/*), or is
# found, or installed, by the target that wants it (internal/tools/withservices).

SHELL := /bin/sh

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PKG ?= ./...
# All modules, unless PKG narrows.
ALL = $(filter ./...,$(PKG))
TOOLS := .build/tools
# Other Go modules; their code is checked like the product's. Each go.mod says why
# it is separate. Only the tests of TEST_MODULES count in make test.
TEST_MODULES := internal/test/thirdparty
MODULES := $(TEST_MODULES) internal/test/bench internal/test/browser
# The modules of tools hold no code.
TOOL_MODULES := $(patsubst %/go.mod,%,$(wildcard internal/tools/*/go.mod))
# The profile that go build goes by of itself for the product.
PGO := cmd/carillon/default.pgo
# The race detector needs cgo, and so a C compiler with its headers. It is not asked
# to watch SQLite's C code, translated to Go: its heap is outside of Go's, where the
# detector does not look, and the tests of that store would take two and a half times
# as long.
RACE = $(shell echo '\#include <stdlib.h>' | $${CC:-cc} -E - >/dev/null 2>&1 && \
	echo -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false)

GOFUMPT := go tool -modfile=internal/tools/format/go.mod gofumpt
GOLANGCI := go tool -modfile=internal/tools/lint/go.mod golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/carillon
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/carillon ./cmd/carillon

.PHONY: run
run: build ## Build, then run everything in one process (./bin/carillon dev)
	./bin/carillon dev

.PHONY: man
man: build ## Write the man pages of all commands into bin/man/man1
	./bin/carillon man bin/man/man1

.PHONY: tools
tools:
	@go build -buildvcs=false -o $(TOOLS)/ ./internal/tools/withservices
	@go build -buildvcs=false -o $(TOOLS)/ -modfile=internal/tools/test/go.mod gotest.tools/gotestsum

# Runs a failed test up to twice more (docs/reliability.md, Tests).
GOTESTSUM = $(TOOLS)/gotestsum --format-hide-empty-pkg --rerun-fails=2 --rerun-fails-max-failures=5 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race --jsonfile .build/test.json \
	--raw-command -- sh internal/tools/test/gotest.sh
# The variables of gotest.sh. Arguments: packages, flags of go test, other modules.
gotest = PACKAGES='$(strip $(1))' FLAGS='$(strip $(2))' MODULES='$(3)' EVENTS=.build/test.json
# A test whose name begins with TestLong runs only in test-long.
LONG = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '^func TestLong' cmd deploy internal launcher registrar worker))))
# Packages without goroutines of their own, and those that test other processes. Of the
# commands only these have some: backfill, client, render and server.
RACE_FREE := carillon$$|/(deploy|docs|proto|schema|internal/(grant|ledger|plan|schedule|app/simulate|tools|test/(chaos|e2e|mutant|storetest)))(/|$$)|/internal/cli(/(alert|apply|command|crontab|explain|grant|preview|run|schedule|workflow))?$$|/(backoff|explain|expect|output|private|tokenfile|wire)$$

# More tests at once than cores (-parallel): most of them wait for servers or timers.
.PHONY: test
test: tools ## Run all tests but the long ones on real Postgres and Redis (PKG=./... to narrow)
	@$(call gotest,$(PKG),-skip=^TestLong -parallel=4,$(if $(ALL),$(TEST_MODULES))) $(TOOLS)/withservices -- $(GOTESTSUM)

.PHONY: test-short
test-short: tools ## Run the tests that need no server
	@$(call gotest,$(PKG),-short,$(if $(ALL),$(TEST_MODULES))) $(GOTESTSUM)

.PHONY: test-long
test-long: tools ## Run the long tests: kill -9, outages, doses of the chaos rig
	@$(call gotest,$(LONG)) RUN=^TestLong $(TOOLS)/withservices -- $(GOTESTSUM)

.PHONY: race
race: tools ## Run the tests of concurrent packages with the race detector (PKG=./... to narrow)
	@test -n '$(RACE)' || { echo 'make race: needs a C compiler (Debian: apt-get install gcc libc6-dev)' >&2; exit 1; }
	@$(call gotest,$(shell go list $(PKG) | grep -vE '$(RACE_FREE)'),-short $(RACE)) $(TOOLS)/withservices -- $(GOTESTSUM)

.PHONY: sim
sim: ## Simulate SEEDS made-up worlds (10000; FIRST=1, P=2 to use two cores), or show one: SEED=n
	@go test -c -buildvcs=false -o .build/sim.test ./internal/test/sim
	@sh internal/test/sim/sim.sh .build/sim.test $(or $(SEEDS),10000) $(or $(FIRST),1) $(or $(P),1) $(SEED)

.PHONY: sim-mutants
sim-mutants: ## Break the product on purpose, bug by bug, and fail unless the simulator finds each
	go test -buildvcs=false -count=1 -timeout 30m -run "TestSeededBugs.*AreFound" -v ./internal/test/sim -args -sim.mutants

.PHONY: store-mutants
store-mutants: tools ## Seed bugs into the real stores and the presence lock, and fail unless their tests find each (ONLY=pattern)
	$(TOOLS)/withservices -- go test -buildvcs=false -count=1 -timeout 60m -run '^TestSeededBugsOfTheStoresAreFound$$/^(none|.*$(subst $() ,_,$(ONLY)).*)$$' -v ./internal/test/mutant -args -stores.mutants

.PHONY: bench-build
bench-build: tools
	@cd internal/test/bench && CGO_ENABLED=0 go build -trimpath -buildvcs=false -pgo=../../../$(PGO) -ldflags '-X main.version=$(VERSION)' -o ../../../$(TOOLS)/ .

.PHONY: stops
stops: tools ## Let N revocations and as many pauses race with fires, on SQLite and on Postgres (N=10000)
	$(TOOLS)/withservices -- go test -count=1 -timeout 30m -run TestStopsRacingFires -v ./worker -args -races $(or $(N),10000)

.PHONY: bench
bench: bench-build ## Measure WORKLOADS ("burst steps") and PEERS on a durable Postgres (N=1000 RUNS=3; docs/benchmarks.md)
	@WORKLOADS='$(WORKLOADS)' N='$(N)' RUNS='$(RUNS)' PEERS='$(PEERS)' FLAGS='$(FLAGS)' OUT='$(OUT)' \
		BENCH='$(BENCH)' BENCHTIME='$(BENCHTIME)' $(TOOLS)/withservices -durable -- sh internal/test/bench/bench.sh $(TOOLS)/bench

.PHONY: bench-steps
bench-steps: bench-build ## Measure the hot parts alone on both stores into .build/steps.txt, for benchstat, and print their table (RUNS=6)
	@$(MAKE) -s bench WORKLOADS=steps RUNS='$(RUNS)' BENCH='$(BENCH)' BENCHTIME='$(BENCHTIME)' >.build/steps.txt || { cat .build/steps.txt; exit 1; }
	@$(TOOLS)/bench steps .build/steps.txt

.PHONY: bench-check
bench-check: tools ## Test the module of the benchmarks, every workload on a few slots
	@cd internal/test/bench && ../../../$(TOOLS)/withservices -- go test -vet=off -parallel=4 ./...

.PHONY: pgo
pgo: bench-build ## Profile streams on both stores and registering, and make of it what the compiler goes by (cmd/carillon/default.pgo)
	@rm -rf .build/pgo
	@$(TOOLS)/withservices -durable -- sh internal/test/bench/profiles.sh $(TOOLS)/bench .build/pgo
	@$(TOOLS)/bench merge -out $(PGO) .build/pgo/*.pprof

.PHONY: soak
soak: tools ## Compare a queue with a sorted list for OPS operations (10000, SEED=1), with kills, on both databases
	$(TOOLS)/withservices -- go test -buildvcs=false -count=1 -timeout 6h -run '^TestLongASoak' -v ./internal/test/e2e -soak $(or $(OPS),10000) -seed $(or $(SEED),1)

.PHONY: chaos
chaos: ## Break a whole deployment and check what it leaves behind (DOSE=short FAULTS=n SEED=n; docs/reliability.md)
	@mkdir -p .build && go build -buildvcs=false -o $(TOOLS)/ ./internal/test/chaos/rig
	@$(TOOLS)/rig -dose $(or $(DOSE),short) -faults $(or $(FAULTS),$(KILLS),0) -seed $(or $(SEED),0) -results .build/chaos.jsonl

.PHONY: chaos-sum
chaos-sum: ## Add up all the doses that make chaos has run
	@mkdir -p .build && go build -buildvcs=false -o $(TOOLS)/ ./internal/test/chaos/rig
	@$(TOOLS)/rig -sum .build/chaos.jsonl

.PHONY: chaos-mutants
chaos-mutants: ## Seed bugs into the product, one after the other, and see that the checker finds each
	@go run ./internal/test/chaos/mutants $(if $(ONLY),-only '$(ONLY)')

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (30s)
	@FUZZTIME=$(or $(FUZZTIME),30s) sh internal/tools/fuzz.sh $(PKG)

.PHONY: generate
generate: ## Format and lint the protos; generate Go code and docs/openapi from them
	@sh internal/tools/proto/generate.sh

.PHONY: generate-check
generate-check: ## Fail when the generated code is not what the protos make
	@sh internal/tools/proto/generate.sh --check

.PHONY: breaking
breaking: ## Fail when the protos break a client of BASE (a commit or tag)
	@sh internal/tools/proto/breaking.sh $(BASE)

.PHONY: browser
browser: ## Drive the console in a real Chromium (RUN='Keyboard' for some of it; Debian's is installed where that can be done)
	@sh internal/test/browser/chromium.sh
	@cd internal/test/browser && go test -vet=off -count=1 -timeout 15m $(if $(RUN),-run '$(RUN)') .

.PHONY: pictures
pictures: ## Take the pictures of docs/console.md again (ALL=1 OUT=folder: every page, wide and narrow, dark and light)
	@sh internal/test/browser/chromium.sh
	@cd internal/test/browser && go run . $(if $(filter command%,$(origin ALL)),-all) -out $(or $(abspath $(OUT)),../../../docs/console)

.PHONY: fmt
fmt: ## Format the Go code
	$(GOFUMPT) -l -w .

.PHONY: fmt-check
fmt-check: ## Fail when Go code is not formatted
	@unformatted=$$($(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then printf "not formatted:\n%s\nrun 'make fmt'\n" "$$unformatted" >&2; exit 1; fi

.PHONY: vet
vet: ## Run go vet (make lint runs its checks too)
	go vet -pgo=off $(PKG)
	$(if $(ALL),@for m in $(MODULES); do (cd $$m && go vet ./...) || exit 1; done)

.PHONY: lint
lint: ## Run golangci-lint (the first time builds it: two minutes)
	$(GOLANGCI) run $(PKG)
	$(if $(ALL),@for m in $(MODULES); do (cd $$m && go tool -modfile=$(CURDIR)/internal/tools/lint/go.mod golangci-lint run ./...) || exit 1; done)

.PHONY: modcheck
modcheck: ## Fail when a go.mod is not tidy or a download was changed (all modules)
	@sh internal/tools/modcheck.sh $(MODULES) -- $(TOOL_MODULES)

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs vuln.go.dev, or a copy: GOVULNDB=file:///FOLDER; docs/hardening.md)
	@sh internal/tools/vuln/check.sh $(MODULES)

.PHONY: check
check: fmt-check modcheck generate-check lint bench-check browser race test-long test ## Everything CI checks

.PHONY: clean
clean: ## Remove what the targets above made
	rm -rf bin .build proto/third_party
