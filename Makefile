# The commands of the project. `make help` lists them.

# cabal.config names no package server, so all Haskell packages come from the system. To use Hackage:
# make CABAL_CONFIG=$HOME/.cabal/config
CABAL_CONFIG ?= cabal.config
CABAL = cabal --config-file=$(CABAL_CONFIG)
PORT ?= 8080

.PHONY: help setup test-setup build program run test test-releases core-test test-windows fiber-test fiber-libraries-test haskell-test format check check-instructions coverage docs deb test-packages release-check release bench bench-compare clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 30

setup: ## install the Debian packages that building needs and that are missing
	@scripts/install-packages build

test-setup: ## install those that the tests need, too
	@scripts/install-packages test $(SUITES)

copy_program = mkdir -p bin && cp -f "$$($(CABAL) -v0 list-bin millrace-cli:exe:millrace)" bin/millrace

build: setup ## build everything; leaves bin/millrace
	@scripts/notice-c-sources
	$(CABAL) v2-build all
	@$(copy_program)

# cabal.project.program is about the first page soon, and keeps what it makes apart. Several modules are compiled at a time, and several
# packages, because the last modules of a package wait for each other.
jobs := $(shell processors=$$(nproc 2>/dev/null || echo 1); echo $$((processors < 4 ? processors : 4)))
program_flags := --project-file=cabal.project.program --builddir=dist-newstyle/program -j$(jobs) --ghc-options="-j$(jobs) +RTS -A128m -n4m -qg -RTS"

program: ## build bin/millrace and nothing else
	@scripts/install-packages run
	@scripts/notice-c-sources
	$(CABAL) v2-build $(program_flags) millrace-cli:exe:millrace
	@mkdir -p bin && cp -f "$$($(CABAL) -v0 list-bin $(program_flags) millrace-cli:exe:millrace)" bin/millrace

run: program ## serve examples/site on http://127.0.0.1:8080 (PORT=... for another port)
	@exec bin/millrace serve examples/site --port $(PORT)

test: test-setup ## build, then run every test (SUITES="core millrace-http" for some; scripts/test --list)
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/test $(SUITES)

test-releases: ## test on Debian 12, 13 and what comes after, in clean roots (RELEASES=, SUITES=)
	@scripts/release/test-on "$(or $(RELEASES),bookworm trixie forky sid)" $(SUITES)

core-test: ## test the C core alone: plain, ASan and UBSan, TSan
	$(MAKE) -C core test

test-windows: ## test the C core for Windows, cross-compiled and under Wine
	@scripts/install-packages test windows
	$(MAKE) -C core test-windows

fiber-test: ## test the C fibers alone: plain, ASan and UBSan, TSan
	$(MAKE) -C fiber test

fiber-libraries-test: ## test libpq, hiredis and libcurl on fibers, with real servers
	$(MAKE) -C fiber test-libraries

haskell-test: ## test the Haskell packages alone
	@scripts/notice-c-sources
	$(CABAL) v2-test all --enable-tests

format: ## format Haskell with ormolu and C with clang-format
	@scripts/format

check: ## run all static checks: format, documents, dependencies, hlint, clang-tidy, Haddock
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/check

# The compiler and its options are those of `make run`. millrace-timers is built beside its program, for the path that is a timer.
instruction_flags := $(subst cabal.project.program,cabal.project.instructions,$(program_flags))

check-instructions: program ## compare the instructions per request of ten paths with bench/instructions.json: two minutes after the build
	@scripts/install-packages instructions
	$(CABAL) v2-build $(instruction_flags) millrace-bench:exe:millrace-timers
	@cp -f "$$($(CABAL) -v0 list-bin $(instruction_flags) millrace-bench:exe:millrace-timers)" bin/millrace-timers
	@bench/instructions --check bin/millrace

coverage: ## the share of lines, branches and expressions that the suites reach, by file (PARTS="core tls" for some); an hour
	@scripts/install-packages test
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/coverage $(PARTS)

docs: setup ## build the documentation of the Haskell libraries in build/docs, and check its links
	@scripts/notice-c-sources
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/make-docs

deb: ## build Debian packages in build/deb: the command, the C libraries, the Haskell libraries
	@scripts/install-packages deb
	@packaging/build-deb

test-packages: ## build and test the packages on Debian 12 and 13, in clean roots (RELEASES=)
	@scripts/release/test-packages $(or $(RELEASES),bookworm trixie)

release-check: ## what is missing before a release: VERSION=0.1.0
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/release/check $(VERSION)

release: ## source archives that compile alone, documentation and the commands that publish: VERSION=0.1.0
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/release/make $(VERSION)

bench: build ## compare with peers (WORKLOAD=, PEERS=, CONNS=, ROUNDS=, QUICK=1)
	@scripts/install-packages test bench
	@bench/run

bench-compare: ## list what became faster or slower between two results files (A=, B=)
	@bench/compare $(A) $(B)

clean: ## remove what was built
	rm -rf dist-newstyle bin build bench/build
	rm -rf "$$(scripts/cache-folder wine-core)" "$$(scripts/cache-folder wine-haskell)"
	$(MAKE) -C core clean
	$(MAKE) -C fiber clean
