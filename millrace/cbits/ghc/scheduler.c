/* scheduler.c: see scheduler.h. */
#include "scheduler.h"

#include "layout.h"

/* There are simulations on POSIX only. */
#if MRH_LAYOUT_IS_KNOWN && !defined _WIN32

#include <DerivedConstants.h>

/* Since GHC 8.0, rts/Capability.h has in this order, a word each: the length of the run queue, `suspended_ccalls`, the
 * number of these, `mut_lists`. From 9.10 on there is a constant for the first offset. The other one is private:
 * scripts/lint/layout compares it with GHC's sources. */
enum {
    RUN_QUEUE_LENGTH = OFFSET_Capability_mut_lists - 3 * 8,
    SUSPENDED_CALLS = OFFSET_Capability_mut_lists - 8,
};
#ifdef OFFSET_Capability_n_run_queue
_Static_assert(OFFSET_Capability_n_run_queue == RUN_QUEUE_LENGTH, "the length of the run queue");
#endif
enum { CONTEXT_SWITCH = OFFSET_Capability_context_switch };

#undef BLOCK_SIZE
#undef MBLOCK_SIZE
#undef BLOCKS_PER_MBLOCK
#include "millrace_check.h"
#include "registers.h"

#include <time.h>

_Static_assert(sizeof(void *) == 8, "three words before mut_lists");

static char *capability_here(void)
{
    MR_CHECK(mrh_layout_is_trusted());
    return (char *)rts_unsafeGetMyCapability();
}

/* A tick that has begun when the timer stops, and a thread that is leaving another capability, each request a context
 * switch. The pause lets both happen; the next mrh_begin_nursery_block cancels the request. */
void mrh_stop_ticking(void)
{
    stopTimer();
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

void mrh_start_ticking(void)
{
    startTimer();
}

/*
 * GHC switches threads at the end of a nursery block if its timer has requested it (the timer is stopped here) or if
 * the program has forked a thread since. Where a block ends depends on all earlier allocations. So every operation
 * cancels the request and begins another block: with a heap limit of 1, the next allocation finds the block full. (0
 * would request a context switch.)
 */
void mrh_begin_nursery_block(void)
{
    *(int *)(capability_here() + CONTEXT_SWITCH) = 0;
    mrh_registers_here()->rHpLim = (StgPtr)1;
}

int mrh_nursery_is_low(void)
{
    /* Half of the nursery that there is after a collection (+RTS -A and -n), but at most 128 blocks. */
    const uint32_t chunk = RtsFlags.GcFlags.nurseryChunkSize, area = chunk ? chunk : RtsFlags.GcFlags.minAllocAreaSize;
    const uint32_t enough = area / 2 < 128 ? area / 2 : 128;
    uint32_t count = 0;
    for (const bdescr *block = mrh_registers_here()->rCurrentNursery; block && count < enough; block = block->link)
        count++;
    mrh_begin_nursery_block();
    return count < enough;
}

int mrh_others_can_run(void)
{
    return *(const unsigned *)(capability_here() + RUN_QUEUE_LENGTH) != 0;
}

int mrh_calls_under_way(void)
{
    return *(const int *)(capability_here() + SUSPENDED_CALLS);
}

#else

void mrh_stop_ticking(void)
{
}

void mrh_start_ticking(void)
{
}

void mrh_begin_nursery_block(void)
{
}

int mrh_nursery_is_low(void)
{
    return 0;
}

int mrh_others_can_run(void)
{
    return 0;
}

int mrh_calls_under_way(void)
{
    return 0;
}

#endif
