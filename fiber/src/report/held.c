/*
 * held.c: fibers that park while they hold a pthread lock.
 *
 * Other fibers that want the lock only wait. An OS thread that wants it sleeps as long as the fiber is parked.
 */
#include "../interpose/libc.h"
#include "report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdlib.h>

enum { FRAMES_MAX = 32, REPORTED_MAX = 64 };

static mf_lock reported_lock;
static const void *reported[REPORTED_MAX]; /* places of locking that were reported once */
static unsigned reported_count;

void mf_held_note_lock(const void *lock, const void *place)
{
    mr_fiber *fiber = mf_current;
    if (mf_reports_held_locks && fiber->held_count < MF_HELD_MAX)
        fiber->held[fiber->held_count++] = (mf_held){lock, place};
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

static bool is_first_report(const void *place)
{
    bool first = true;
    mf_lock_take(&reported_lock);
    for (unsigned i = 0; i < reported_count; i++)
        first &= reported[i] != place;
    if (first && reported_count < REPORTED_MAX)
        reported[reported_count++] = place;
    mf_lock_give(&reported_lock);
    return first;
}

static bool is_interposed(const void *function)
{
    for (size_t i = 0; i < mf_interposed_count; i++)
        if (mf_interposed_functions[i].definition == function)
            return true;
    return false;
}

/* The interposed call through which this fiber parks, and where the call was made. If one of our own functions
 * parks, that function. */
static const void *place_of_park(const char **call)
{
    void *frames[FRAMES_MAX];
    Dl_info info;
    const void *place = __builtin_return_address(0);
    int count = backtrace(frames, FRAMES_MAX);
    *call = "a wait";
    for (int i = 0; i + 1 < count; i++) {
        if (!dladdr(frames[i], &info) || !is_interposed(info.dli_saddr))
            continue;
        *call = info.dli_sname;
        place = frames[i + 1];
    }
    return place;
}

void mf_held_note_park(void)
{
    mr_fiber *fiber = mf_current;
    if (!mf_reports_held_locks || !fiber->held_count)
        return;
    const mf_held *held = &fiber->held[fiber->held_count - 1];
    if (!is_first_report(held->place))
        return;
    char locked_at[MF_PLACE_BYTES], parked_at[MF_PLACE_BYTES];
    const char *call;
    mf_enter_core();
    const void *place = place_of_park(&call);
    mf_report_describe(locked_at, held->place);
    mf_report_describe(parked_at, place);
    mf_leave_core(fiber);
    mf_report("fiber \"%s\" parks in %s, called at %s, while it holds the lock taken at %s", fiber->name, call,
              parked_at, locked_at);
}
