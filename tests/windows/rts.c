/* rts.c: stands in for the parts of GHC's run-time system that the C files use, so that they can be linked for
   Windows. */
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
