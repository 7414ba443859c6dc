/* rts.c: what our C files take from GHC's run-time system, so that they can be linked for Windows without it. */
#include <Rts.h>

uint32_t enabled_capabilities;

StgClosure stg_END_TSO_QUEUE_closure;
const StgInfoTable stg_MVAR_TSO_QUEUE_info;

long rts_getThreadId(StgPtr thread)
{
    (void)thread;
    return 0;
}

Capability *rts_unsafeGetMyCapability(void)
{
    return NULL;
}
