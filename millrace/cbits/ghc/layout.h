/*
 * layout.h: whether the layout of GHC's run-time system is known here, and where a capability has its registers.
 *
 * Two conditions must hold before anything in this folder uses a layout: the version is on the list of versions.h, and the
 * check at start-up found what the public functions say. All other code asks mrh_layout_is_trusted.
 */
#ifndef MILLRACE_GHC_LAYOUT_H
#define MILLRACE_GHC_LAYOUT_H

#include "versions.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Call this on each capability before its first use. Compares what the layout says about `thread` (the caller's ThreadId#)
 * and about `capability`, which has this number, with what public functions say. After one contradiction this process no
 * longer uses any layout. */
void mrh_check_layout(void *thread, void *capability, unsigned number);

typedef enum mrh_trust { MRH_UNCHECKED, MRH_TRUSTED, MRH_CONTRADICTED } mrh_trust;

extern _Atomic mrh_trust mrh_layout_trust;

static inline bool mrh_layout_is_trusted(void)
{
    return MRH_LAYOUT_IS_TESTED && atomic_load_explicit(&mrh_layout_trust, memory_order_relaxed) == MRH_TRUSTED;
}

/* For Haskell. */
int mrh_knows_layout(void);

#endif
