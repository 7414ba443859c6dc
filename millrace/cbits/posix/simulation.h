/*
 * simulation.h: a simulated machine in place of the operating system, for one capability.
 *
 * While a simulation runs, the capability it was begun on has the simulation's loop as its own, and sockets that are
 * made there are the machine's. Descriptor numbers and tokens of both worlds differ, so that operations of the real
 * one can still be released and cancelled. All functions are for `unsafe` calls.
 */
#ifndef MILLRACE_SIMULATION_H
#define MILLRACE_SIMULATION_H

#include "millrace_machine.h"

#include <errno.h>

/* Begins one on this capability. 0, -EBUSY if one runs already, -ENOTSUP if this GHC's scheduler is not known well enough to
 * repeat a run (ghc/versions.h), or why the machine cannot be made. From here until its end the run-time system's timer stands
 * still: threads change only where they wait or yield. */
int mrh_simulation_begin(const mr_machine_plan *plan, mr_machine **machine, mr_loop **loop);
/* Ends it. Nothing may be in flight. */
void mrh_simulation_end(void);
/* The same while threads still use it: its memory is never freed. */
void mrh_simulation_abandon(void);

/* In the child of a fork: no simulation runs here, and the memory of the parent's is never freed. */
void mrh_simulation_forget(void);

/* The machine of the simulation that runs on this capability, or NULL. */
mr_machine *mrh_simulation_here(void);
/* The machine of the simulation that runs anywhere, or NULL. */
mr_machine *mrh_simulation_machine(void);

/* Does the number belong to a descriptor of the simulated machine? Without a machine the system may use these numbers, too, if
 * fs.nr_open was raised. */
static inline bool mrh_is_simulated(int descriptor)
{
    return mr_machine_owns(descriptor) && mrh_simulation_machine();
}

/* For calls that the simulated machine does not have: sets errno to EOPNOTSUPP and returns true for its descriptors. */
static inline bool mrh_refuses_simulated(int descriptor)
{
    if (!mrh_is_simulated(descriptor))
        return false;
    errno = EOPNOTSUPP;
    return true;
}

/* The group that it adopts into, or NULL if none runs anywhere. */
mr_group *mrh_simulation_group(void);

/* Waits for a millisecond of real time. For `safe` calls: threads that come back from foreign calls run meanwhile. */
void mrh_simulation_pause(void);

/* A line for the trace. */
void mrh_note(mr_machine *where, const char *text);
uint64_t mrh_chance(mr_machine *where, uint64_t bound);
/* Within a simulation. */
uint64_t mrh_chance_here(uint64_t bound);

#endif
