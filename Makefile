# The commands of the project. `make help` lists them.

# cabal.config names no package server, so that everything comes from the system's packages. With Hackage instead:
# make CABAL_CONFIG=$HOME/.cabal/config
CABAL_CONFIG ?= cabal.config
CABAL = cabal --config-file=$(CABAL_CONFIG)
PORT ?= 8080

.PHONY: help setup build run test core-test test-windows fiber-test fiber-libraries-test haskell-test format check bench bench-compare clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

setup: ## install the Debian packages that are missing
	@scripts/install-packages

build: setup ## build everything; leaves bin/millrace
	@mkdir -p bin
	@scripts/notice-c-sources
	$(CABAL) v2-build all
	@cp -f "$$($(CABAL) -v0 v2-exec which millrace)" bin/millrace

run: build ## serve examples/site on http://127.0.0.1:8080 (PORT=... for another port)
	@exec bin/millrace serve examples/site --port $(PORT)

test: setup ## build, then run every test
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/test

core-test: ## test the C core alone: plain, ASan and UBSan, TSan
	$(MAKE) -C core test

test-windows: setup ## test the C core for Windows, cross-compiled and under Wine
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

check: ## the format, claims about dependencies, cabal check, hlint, clang-tidy and Haddock, which must all be silent
	@CABAL_CONFIG=$(CABAL_CONFIG) scripts/check

bench: build ## compare with peers (WORKLOAD=, PEERS=, CONNS=, ROUNDS=, QUICK=1)
	@bench/run

bench-compare: ## what became faster or slower between two results: A=file B=file
	@bench/compare $(A) $(B)

clean: ## remove what was built
	rm -rf dist-newstyle bin build bench/build
	$(MAKE) -C core clean
	$(MAKE) -C fiber clean
