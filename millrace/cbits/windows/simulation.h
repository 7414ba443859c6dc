/*
 * simulation.h: there is no simulated machine on Windows. These functions always say so.
 *
 * The machine speaks POSIX's interface (core/src/machine); Millrace.Simulation is not built here.
 */
#ifndef MILLRACE_SIMULATION_H
#define MILLRACE_SIMULATION_H

#include "millrace.h"

#include <stdbool.h>

static inline bool mrh_is_simulated(int descriptor)
{
    (void)descriptor;
    return false;
}

static inline mr_group *mrh_simulation_group(void)
{
    return NULL;
}

static inline void mrh_simulation_forget(void)
{
}

#endif
