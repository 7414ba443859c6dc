# faults.mk - what Makefiles share whose tests run once more while calls fail one by one (core/test/fault).
#
# Include it behind variants.mk, after setting
#   fault_suite     the program in build/faults and build/coverage-faults; the including file has the rules that link it
#   coverage_suites the programs in build/coverage
#   fault_count     how many calls of each test fail in turn for `make coverage`, or all
#   own_faults      a variable of the environment with which only calls of our own files fail: `make coverage` lets each of them fail; may be missing

# A test runs many times, so it has more time. Its variables stay on its stack, where leaks are looked for.
fault_flags := -O0 -DHARNESS_TIME_LIMIT_MS=3600000 -DHARNESS_FINDS_LEAKS=1

# For objcopy: the functions that allocate get the names of those in fault.c.
fault_allocations := $(foreach name,malloc calloc realloc,--redefine-sym $(name)=fault_$(name))

.PHONY: test-faults coverage
test-faults: build/faults/$(fault_suite)
	@$< $(TESTS)

# For scripts/coverage, which says what the tests reach.
coverage: $(coverage_suites:%=build/coverage/%) build/coverage-faults/$(fault_suite)
	@find build/coverage build/coverage-faults -name '*.gcda' -delete
	@-for suite in $(coverage_suites); do build/coverage/$$suite $(TESTS) | tail -n 1; done
	@-FAULTS=$(or $(FAULTS),$(fault_count)) build/coverage-faults/$(fault_suite) $(TESTS) | tail -n 1
	@-$(if $(own_faults),FAULTS=all $(own_faults) build/coverage-faults/$(fault_suite) $(TESTS) | tail -n 1)
