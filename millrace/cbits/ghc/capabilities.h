/*
 * capabilities.h: which capability runs this call, and which capabilities are in use.
 *
 * Uses only public functions of the run-time system and no layout, because the plain path needs this file too. Must not
 * know: loops.
 */
#ifndef MILLRACE_GHC_CAPABILITIES_H
#define MILLRACE_GHC_CAPABILITIES_H

#include <Rts.h>

#include <stdbool.h>
#include <stdint.h>

/* The capability that runs this `unsafe` call. */
static inline Capability *mrh_capability_here(void)
{
    return rts_unsafeGetMyCapability();
}

/* False while setNumCapabilities has switched this capability off, which it does only while no capability runs. */
static inline bool mrh_capability_is_enabled(uint32_t number)
{
    return number < enabled_capabilities;
}

static inline bool mrh_has_one_capability(void)
{
    return enabled_capabilities == 1;
}

#endif
