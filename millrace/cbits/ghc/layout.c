/* layout.c: see layout.h. */
#include "layout.h"

_Atomic mrh_trust mrh_layout_trust = MRH_UNCHECKED;

int mrh_knows_layout(void)
{
    return mrh_layout_is_trusted();
}

#if MRH_LAYOUT_IS_KNOWN

/* GHC computes these when it is built. Its two headers define a few macros differently: hence the order. */
#include <DerivedConstants.h>

enum {
    DERIVED_NUMBER = OFFSET_Capability_no,
    DERIVED_CURRENT_THREAD = OFFSET_Capability_r + OFFSET_StgRegTable_rCurrentTSO,
    DERIVED_CURRENT_NURSERY = OFFSET_Capability_r + OFFSET_StgRegTable_rCurrentNursery,
    DERIVED_HEAP_LIMIT = OFFSET_Capability_r + OFFSET_StgRegTable_rHpLim,
    DERIVED_BLOCK_LINK = OFFSET_bdescr_link,
    /* Excludes the closure's header, whose size depends on whether the program is profiled. */
    DERIVED_THREAD_FLAGS = OFFSET_StgTSO_flags,
    DERIVED_THREAD_IDENTITY = OFFSET_StgTSO_id,
    DERIVED_THREAD_CAPABILITY = OFFSET_StgTSO_cap,
    DERIVED_THREAD_STACK = OFFSET_StgTSO_stackobj,
    DERIVED_STACK_POINTER = OFFSET_StgStack_sp,
    DERIVED_STACK_SIZE = OFFSET_StgStack_stack_size,
    DERIVED_VARIABLE_HEAD = OFFSET_StgMVar_head,
    DERIVED_WAITING_THREAD = OFFSET_StgMVarTSOQueue_tso,
};

#undef BLOCK_SIZE
#undef MBLOCK_SIZE
#undef BLOCKS_PER_MBLOCK
#include "registers.h"

#define PAYLOAD_OFFSET(closure, field) (offsetof(closure, field) - sizeof(StgHeader))

_Static_assert(offsetof(CapabilityPublic, r.rCurrentTSO) == DERIVED_CURRENT_THREAD, "the running thread");
_Static_assert(offsetof(CapabilityPublic, r.rCurrentNursery) == DERIVED_CURRENT_NURSERY, "the nursery's block");
_Static_assert(offsetof(CapabilityPublic, r.rHpLim) == DERIVED_HEAP_LIMIT, "the heap limit");
_Static_assert(offsetof(bdescr, link) == DERIVED_BLOCK_LINK, "the next block");
_Static_assert(PAYLOAD_OFFSET(StgTSO, flags) == DERIVED_THREAD_FLAGS, "a thread's flags");
_Static_assert(PAYLOAD_OFFSET(StgTSO, id) == DERIVED_THREAD_IDENTITY, "a thread's number");
_Static_assert(PAYLOAD_OFFSET(StgTSO, cap) == DERIVED_THREAD_CAPABILITY, "a thread's capability");
_Static_assert(PAYLOAD_OFFSET(StgTSO, stackobj) == DERIVED_THREAD_STACK, "a thread's stack");
_Static_assert(PAYLOAD_OFFSET(StgStack, sp) == DERIVED_STACK_POINTER, "a stack's pointer");
_Static_assert(PAYLOAD_OFFSET(StgStack, stack_size) == DERIVED_STACK_SIZE, "a stack's size");
_Static_assert(PAYLOAD_OFFSET(StgMVar, head) == DERIVED_VARIABLE_HEAD, "an MVar's queue");
_Static_assert(PAYLOAD_OFFSET(StgMVarTSOQueue, tso) == DERIVED_WAITING_THREAD, "a thread that waits for an MVar");

static bool agrees(StgTSO *thread, const char *capability, unsigned number)
{
    return *(const uint32_t *)(capability + DERIVED_NUMBER) == number && mrh_registers_here()->rCurrentTSO == thread &&
           thread->id == (StgThreadID)rts_getThreadId((StgPtr)thread) && thread->cap == rts_unsafeGetMyCapability();
}

void mrh_check_layout(void *thread, void *capability, unsigned number)
{
    mrh_trust unchecked = MRH_UNCHECKED;
    if (agrees(thread, capability, number))
        atomic_compare_exchange_strong(&mrh_layout_trust, &unchecked, MRH_TRUSTED);
    else
        atomic_store(&mrh_layout_trust, MRH_CONTRADICTED);
}

#else

void mrh_check_layout(void *thread, void *capability, unsigned number)
{
    (void)thread;
    (void)capability;
    (void)number;
}

#endif
