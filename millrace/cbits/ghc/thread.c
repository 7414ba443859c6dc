/* thread.c: see thread.h. */
#include "thread.h"

#include "layout.h"

#if MRH_LAYOUT_IS_KNOWN

#include "millrace_check.h"
#include "registers.h"

/* The scheduler never moves a thread that has TSO_LOCKED; forkOn sets this flag too. Its value is 2 in GHC 9.0 to 9.14.
 * From 9.6 on, a Haskell thread that a call from C has started has it too, if its OS thread prefers a capability. */
_Static_assert(TSO_LOCKED == 2, "the flag of threads that stay on their capability");

static StgTSO *thread_here(void)
{
    return mrh_registers_here()->rCurrentTSO;
}

bool mrh_thread_hold(void)
{
    if (!mrh_layout_is_trusted())
        return false;
    StgTSO *thread = thread_here();
    if (tsoLocked(thread))
        return false;
    thread->flags |= TSO_LOCKED;
    return true;
}

void mrh_thread_let_move(void)
{
    StgTSO *thread = thread_here();
    MR_CHECK(tsoLocked(thread));
    thread->flags &= ~(StgWord32)TSO_LOCKED;
}

uint64_t mrh_thread_number(void)
{
    return mrh_layout_is_trusted() ? thread_here()->id : 0;
}

#else

bool mrh_thread_hold(void)
{
    return false;
}

void mrh_thread_let_move(void)
{
}

uint64_t mrh_thread_number(void)
{
    return 0;
}

#endif
