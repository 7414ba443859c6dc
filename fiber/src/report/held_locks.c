/* held_locks.c: reports fibers that park while they hold a pthread lock.
 *
 * Other fibers that need the lock only park. An OS thread that needs it is blocked as long as the fiber is parked.
 * */
#include "../interpose/libc.h"
#include "report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdlib.h>

enum { FRAMES_MAX = 32, REPORTED_MAX = 64 };

static mf_lock reported_lock;
static const void *reported[REPORTED_MAX]; /* call sites that were reported */
static unsigned reported_count;

void mf_held_note_lock(const void *lock, const void *call_site)
{
    mr_fiber *fiber = mf_current;
    if (mf_reports_held_locks && fiber->held_count < MF_HELD_MAX)
        fiber->held[fiber->held_count++] = (mf_held){lock, call_site};
}

void mf_held_note_unlock(const void *lock)
{
    mr_fiber *fiber = mf_current;
    for (unsigned i = fiber->held_count; i-- > 0;) {
        if (fiber->held[i].lock != lock)
            continue;
        fiber->held[i] = fiber->held[--fiber->held_count];
        return;
    }
}

static bool is_first_report(const void *call_site)
{
    bool first = true;
    mf_lock_acquire(&reported_lock);
    for (unsigned i = 0; i < reported_count; i++)
        first &= reported[i] != call_site;
    if (first && reported_count < REPORTED_MAX)
        reported[reported_count++] = call_site;
    mf_lock_release(&reported_lock);
    return first;
}

static bool is_interposed(const void *function)
{
    for (size_t i = 0; i < mf_interposed_count; i++)
        if (mf_interposed_functions[i].definition == function)
            return true;
    return false;
}

/* Finds the interposed call through which this fiber parks, and the address of that call. If a function of
 * millrace_fiber.h parks, finds that function. */
static const void *call_site_of_park(const char **call)
{
    void *frames[FRAMES_MAX];
    Dl_info info;
    const void *call_site = __builtin_return_address(0);
    int count = backtrace(frames, FRAMES_MAX);
    *call = "a wait";
    for (int i = 0; i + 1 < count; i++) {
        if (!dladdr(frames[i], &info) || !is_interposed(info.dli_saddr))
            continue;
        *call = info.dli_sname;
        call_site = frames[i + 1];
    }
    return call_site;
}

void mf_held_note_park(void)
{
    mr_fiber *fiber = mf_current;
    if (!mf_reports_held_locks || !fiber->held_count)
        return;
    const mf_held *held = &fiber->held[fiber->held_count - 1];
    if (!is_first_report(held->call_site))
        return;
    char locked_at[MF_ADDRESS_TEXT_BYTES], parked_at[MF_ADDRESS_TEXT_BYTES];
    const char *call;
    mf_enter_core();
    const void *call_site = call_site_of_park(&call);
    mf_report_describe(locked_at, held->call_site);
    mf_report_describe(parked_at, call_site);
    mf_leave_core(fiber);
    mf_report("fiber \"%s\" parks in %s, called at %s, while it holds the lock taken at %s", fiber->name, call,
              parked_at, locked_at);
}
