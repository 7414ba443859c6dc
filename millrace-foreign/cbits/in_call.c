/*
 * in_call.c: C code on a fiber that enters Haskell by itself, through a `foreign export`, or a `wrapper` that is
 * not a Callback.
 *
 * The run-time system identifies the caller by its OS thread, on which calls into Haskell nest. So from rts_lock to
 * rts_unlock the fiber acts as its carrier's OS thread, which runs no other fiber meanwhile. The linker redirects both
 * calls to this file (--wrap, in millrace-foreign.cabal).
 */
#include "millrace_check.h"
#include "millrace_fiber.h"

#include <Rts.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker gives them these names */
Capability *__real_rts_lock(void);
void __real_rts_unlock(Capability *capability);
Capability *__wrap_rts_lock(void);
void __wrap_rts_unlock(Capability *capability);
/* NOLINTEND(bugprone-reserved-identifier) */

/* One entry for each nested call on this thread. Only the outermost call was made on a fiber. */
static __thread unsigned depth;
static __thread mr_fiber *outermost;

Capability *__wrap_rts_lock(void)
{
    if (depth++ == 0)
        outermost = mr_fiber_enter_thread();
    return __real_rts_lock();
}

void __wrap_rts_unlock(Capability *capability)
{
    __real_rts_unlock(capability);
    MR_CHECK(depth > 0);
    if (--depth == 0)
        mr_fiber_leave_thread(outermost);
}
