/*
 * registers.h: the registers of the capability that runs this call, which compiled Haskell code uses.
 *
 * In GHC 9.0 to 9.14 every capability begins as CapabilityPublic does. Include this only if MRH_LAYOUT_IS_KNOWN.
 */
#ifndef MILLRACE_GHC_REGISTERS_H
#define MILLRACE_GHC_REGISTERS_H

#include <Rts.h>

static inline StgRegTable *mrh_registers_here(void)
{
    return &((CapabilityPublic *)rts_unsafeGetMyCapability())->r;
}

#endif
