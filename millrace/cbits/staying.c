/* staying.c: see staying.h. Must not know: GHC. */
#include "staying.h"

#include "ghc/capabilities.h"
#include "ghc/thread.h"

enum {
    /* A thread that runs longer than this between two operations is worth moving to another capability. */
    QUICK_NS = 200 * 1000,
    /* On a loop that has not slept for BUSY_NS, one of WAITS_PER_FREE_ONE waits lets the scheduler move the thread. */
    BUSY_NS = 20 * 1000 * 1000,
    WAITS_PER_FREE_ONE = 64,
    CACHE_LINE_BYTES = 64,
};

/* How long the threads of a loop run, and since when the loop has not slept. `busy_since_ns` is 0 after a sleep. */
typedef struct pace {
    _Alignas(CACHE_LINE_BYTES) uint64_t woken_ns;
    uint64_t busy_since_ns;
    unsigned woken;
    unsigned waits;
    bool is_slow;
} pace;

static pace paces[MR_LOOPS_MAX];

static pace *pace_of(const mr_loop *loop)
{
    return &paces[mr_loop_index(loop)];
}

void mrh_begin_batch(const mr_loop *loop, int woken)
{
    pace *own = pace_of(loop);
    if (mrh_has_one_capability() || woken <= 0)
        return;
    own->woken = (unsigned)woken;
    own->woken_ns = mr_clock_now_ns();
    if (own->busy_since_ns == 0)
        own->busy_since_ns = own->woken_ns;
}

void mrh_end_batch(const mr_loop *loop)
{
    pace *own = pace_of(loop);
    if (own->woken == 0)
        return;
    own->is_slow = mr_clock_now_ns() - own->woken_ns > (uint64_t)QUICK_NS * own->woken;
    own->woken = 0;
}

void mrh_record_sleep(const mr_loop *loop)
{
    pace_of(loop)->busy_since_ns = 0;
}

static bool may_be_overloaded(const pace *own)
{
    return own->woken_ns - own->busy_since_ns > BUSY_NS;
}

bool mrh_thread_stays(const mr_loop *loop)
{
    pace *own = pace_of(loop);
    if (mrh_has_one_capability() || own->is_slow || (++own->waits % WAITS_PER_FREE_ONE == 0 && may_be_overloaded(own)))
        return false;
    return mrh_thread_hold();
}
