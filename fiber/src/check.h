/*
 * check.h: MR_CHECK for code that may run on a fiber.
 *
 * Printing on a fiber may park, and then other fibers would run in a state that is known to be wrong. So the message is
 * printed as an OS thread would.
 */
#ifndef MILLRACE_FIBER_CHECK_H
#define MILLRACE_FIBER_CHECK_H

#include "carrier.h"
#include "millrace_check.h"

__attribute__((cold, noinline, noreturn, unused)) static void mf_check_failed(const char *condition, const char *file,
                                                                              int line)
{
    mf_current = NULL;
    mr_check_failed(condition, file, line);
}

#undef MR_CHECK
#define MR_CHECK(condition) \
    (__builtin_expect(!(condition), 0) ? mf_check_failed(#condition, __FILE__, __LINE__) : (void)0)

#endif
