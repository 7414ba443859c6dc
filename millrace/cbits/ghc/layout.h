/*
 * layout.h: whether this folder knows the layout of GHC's run-time system.
 *
 * Code in this folder may use the layout only if mrh_layout_is_trusted: the version is on the list of versions.h, and
 * the check at start-up found what public functions say.
 */
#ifndef MILLRACE_GHC_LAYOUT_H
#define MILLRACE_GHC_LAYOUT_H

#include "versions.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Call this on each capability before its first use. Compares what the layout says about `thread` (the caller's
 * ThreadId#) and about `capability`, which has this number, with what public functions say. After one contradiction
 * this process never uses the layout again. */
void mrh_check_layout(void *thread, void *capability, unsigned number);

typedef enum mrh_trust { MRH_UNCHECKED, MRH_TRUSTED, MRH_CONTRADICTED } mrh_trust;

extern _Atomic mrh_trust mrh_layout_trust;

static inline bool mrh_layout_is_trusted(void)
{
    return MRH_LAYOUT_IS_KNOWN && atomic_load_explicit(&mrh_layout_trust, memory_order_relaxed) == MRH_TRUSTED;
}

/* mrh_layout_is_trusted for Haskell. */
int mrh_knows_layout(void);

#endif
