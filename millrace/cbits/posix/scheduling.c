/* scheduling.c: mrh_begin_block and mrh_others_can_run of simulation.h. A file of its own, because GHC's DerivedConstants.h, which says where
 * things are, and its Rts.h, which says what they are, cannot be included together. */
#include <DerivedConstants.h>

extern char *rts_unsafeGetMyCapability(void);
extern void mrh_begin_block(void);
extern int mrh_others_can_run(void);

/*
 * GHC changes threads at the end of a nursery block when its timer has asked for it, which it does not here, and when a
 * thread has been forked since. Where a block ends depends on all that was allocated before. So the request is taken
 * back at every operation, and the block left: a limit of the heap that nothing is below (but not 0, which would ask for
 * a change) makes the next allocation begin another one.
 */
void mrh_begin_block(void)
{
    char *here = rts_unsafeGetMyCapability();
    *(int *)(here + OFFSET_Capability_context_switch) = 0;
    *(long *)(here + OFFSET_Capability_r + OFFSET_StgRegTable_rHpLim) = 1;
}

/* The length of the capability's run queue, without the thread that runs. In rts/Capability.h since GHC 8.0 it comes before
 * `suspended_ccalls`, the number of these and `mut_lists`: a word each. */
int mrh_others_can_run(void)
{
    enum { WORDS_BEFORE = 3 };
    char *here = rts_unsafeGetMyCapability();
    return *(unsigned *)(here + OFFSET_Capability_mut_lists - WORDS_BEFORE * sizeof(void *)) != 0;
}
