# How a variant (plain, ASan with UBSan, TSan) of a C part, this one or another, is compiled, and how its test programs
# are run. The Makefile that includes this has set `suites`, the names of its test programs, and builds
# build/VARIANT/SUITE. If it is built for other systems too, it has set `systems`: the variant NAME-SYSTEM is NAME for
# that system.
#
# TESTS="recv io_uring/timeout" runs only the tests whose names contain one of these words.

CC ?= gcc
AR ?= ar
PKG_CONFIG ?= pkg-config
TESTS ?=

uring_flags := $(shell $(PKG_CONFIG) --cflags liburing)
uring_libraries := $(shell $(PKG_CONFIG) --libs liburing)

base_flags := -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Werror -pthread -Iinclude $(uring_flags)
plain_flags :=
asan_flags := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
tsan_flags := -fsanitize=thread -fno-omit-frame-pointer
# For scripts/coverage; without optimization each branch of the source is one of the program.
coverage_flags := -O0 --coverage -fprofile-update=atomic -Wl,-u,__gcov_dump

# How much slower than the plain build a variant is: stress tests run so many times fewer rounds.
plain_slowness := 1
asan_slowness := 4
tsan_slowness := 10
coverage_slowness := 4

variants := plain asan tsan
all_variants := $(variants) $(foreach system,$(systems),$(variants:%=%-$(system)))

.DEFAULT_GOAL := all
.PHONY: all test $(all_variants:%=test-%) clean help
.DELETE_ON_ERROR:

# $(call run_suites,variants): runs the programs of each variant and ends with the sum of what they count. An empty
# selection of one program is not a failure as long as another one ran something. Each run has a summary of its own, so
# that several may go on at once.
define run_suites
@summary=$$(mktemp); trap 'rm -f "$$summary"' EXIT; \
for variant in $1; do for suite in $(suites); do \
    echo "--- $$suite tests, $$variant"; \
    HARNESS_SUMMARY="$$summary" build/$$variant/$$suite $(TESTS); \
done; done; \
awk -v runs=$(words $(foreach variant,$1,$(suites))) \
    '{ passed += $$1; failed += $$2; skipped += $$3 } \
     END { if (NR < runs) { print runs - NR " test programs broke off"; failed += runs - NR } \
           if (skipped) print skipped " could not run here"; \
           print passed + 0 " passed, " failed + 0 " failed"; exit !passed || failed }' "$$summary"
endef

programs_of = $(foreach suite,$(suites),build/$1/$(suite))

test: all $(foreach variant,$(all_variants),$(call programs_of,$(variant)))
	$(call run_suites,$(all_variants))

.SECONDEXPANSION:
$(all_variants:%=test-%): test-%: $$(call programs_of,$$*)
	$(call run_suites,$*)

clean:
	rm -rf build
