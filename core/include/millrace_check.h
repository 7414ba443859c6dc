/*
 * millrace_check.h: MR_CHECK, the assertion that is always on, in release builds too.
 *
 * Use it where code relies on an invariant: continuing would corrupt memory, lose a wake-up or close a stranger's
 * descriptor, so the process prints the condition with its file and line and aborts. Never use it for a mistake of a
 * caller, a peer or the system: return an error code for that. Must not know: loops, operations.
 */
#ifndef MILLRACE_CHECK_H
#define MILLRACE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* Cold and not inlined, so that a passing check costs only a test and a branch that is not taken. */
__attribute__((cold, noinline, noreturn, unused)) static void mr_check_failed(const char *condition, const char *file,
                                                                              int line)
{
    fprintf(stderr, "millrace: internal error: %s:%d: check failed: %s. Please report this.\n", file, line, condition);
    abort();
}

/* The condition is always evaluated, once. */
#define MR_CHECK(condition) \
    (__builtin_expect(!(condition), 0) ? mr_check_failed(#condition, __FILE__, __LINE__) : (void)0)

#endif
