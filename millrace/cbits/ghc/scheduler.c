/* scheduler.c: see scheduler.h. */
#include "scheduler.h"

#include "layout.h"

/* There are simulations on POSIX only. */
#if MRH_LAYOUT_IS_TESTED && !defined _WIN32

#include <DerivedConstants.h>

/* In the order of rts/Capability.h since GHC 8.0, the length of the run queue comes before `suspended_ccalls`, the number of
 * these and `mut_lists`: a word each. From 9.10 on the first offset has a constant. */
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

/* A tick that is under way when the timer is stopped, and a thread that still makes room on another capability, would
 * each ask for a change of threads. After the pause both have come, and the next block takes the request back. */
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
 * GHC changes threads at the end of a nursery block when its timer has asked for it, which it does not here, and when a
 * thread has been forked since. Where a block ends depends on all that was allocated before. So the request is taken
 * back at every operation, and the block left: a limit of the heap that nothing is below (but not 0, which would ask for
 * a change) makes the next allocation begin another block.
 */
void mrh_begin_block(void)
{
    *(int *)(capability_here() + CONTEXT_SWITCH) = 0;
    mrh_registers_here()->rHpLim = (StgPtr)1;
}

int mrh_nursery_is_low(void)
{
    /* Half of what there is after a collection, if it is not even the smallest that GHC has without being asked (+RTS -A
     * and -n). */
    const uint32_t chunk = RtsFlags.GcFlags.nurseryChunkSize, area = chunk ? chunk : RtsFlags.GcFlags.minAllocAreaSize;
    const uint32_t enough = area / 2 < 128 ? area / 2 : 128;
    uint32_t count = 0;
    for (const bdescr *block = mrh_registers_here()->rCurrentNursery; block && count < enough; block = block->link)
        count++;
    mrh_begin_block();
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

void mrh_begin_block(void)
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
