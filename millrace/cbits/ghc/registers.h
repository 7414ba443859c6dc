/*
 * registers.h: the registers of the capability that runs this call, as compiled Haskell code uses them.
 *
 * Every capability of GHC 9.0 to 9.14 begins like CapabilityPublic. To be included only where MRH_LAYOUT_IS_TESTED.
 */
#ifndef MILLRACE_GHC_REGISTERS_H
#define MILLRACE_GHC_REGISTERS_H

#include <Rts.h>

static inline StgRegTable *mrh_registers_here(void)
{
    return &((CapabilityPublic *)rts_unsafeGetMyCapability())->r;
}

#endif
