/*
 * simulation.h: a simulated machine in place of the operating system, for one capability.
 *
 * While a simulation runs, the capability on which it began uses the simulation's loop, and creates sockets on the
 * simulated machine. Real and simulated descriptor numbers and tokens differ, so that real operations can still be
 * released and cancelled. All functions are for `unsafe` calls.
 */
#ifndef MILLRACE_SIMULATION_H
#define MILLRACE_SIMULATION_H

#include "millrace_machine.h"

#include <errno.h>

/* Begins a simulation on this capability. Returns 0; -EBUSY if one runs already; -ENOTSUP if the layout of this GHC's
 * run-time system is unknown, so that a run could not be repeated (ghc/versions.h); or the error of mr_machine_create.
 * Until the simulation ends, the run-time system's timer is stopped: the scheduler switches threads only where they
 * wait or yield. */
int mrh_simulation_begin(const mr_machine_plan *plan, mr_machine **machine, mr_loop **loop);
/* Ends the simulation. No operation may be in flight. */
void mrh_simulation_end(void);
/* Ends the simulation while threads still use it. Its memory is never freed. */
void mrh_simulation_abandon(void);

/* For the child of a fork: no simulation runs here. The memory of the parent's simulation is never freed. */
void mrh_simulation_forget(void);

/* The machine of the simulation that runs on this capability, or NULL. */
mr_machine *mrh_simulation_here(void);
/* The machine of the simulation that runs on any capability, or NULL. */
mr_machine *mrh_simulation_machine(void);

/* True if the number is a descriptor of the simulated machine. While no simulation runs, the system may use these
 * numbers too, if fs.nr_open was raised. */
static inline bool mrh_is_simulated(int descriptor)
{
    return mr_machine_owns(descriptor) && mrh_simulation_machine();
}

/* For functions that the simulated machine does not have. If the descriptor is simulated, sets errno to EOPNOTSUPP and
 * returns true. */
static inline bool mrh_refuses_simulated(int descriptor)
{
    if (!mrh_is_simulated(descriptor))
        return false;
    errno = EOPNOTSUPP;
    return true;
}

/* The group that adopts simulated descriptors, or NULL if no simulation runs. */
mr_group *mrh_simulation_group(void);

/* Waits for a millisecond of real time. For `safe` calls, so that threads that return from foreign calls can run
 * meanwhile. */
void mrh_simulation_pause(void);

/* Adds a line to the trace. */
void mrh_simulation_note(mr_machine *where, const char *text);
/* A random number below `bound`, from the simulation's seed. The second function uses the simulation of this
 * capability, which must exist. */
uint64_t mrh_simulation_random(mr_machine *where, uint64_t bound);
uint64_t mrh_simulation_random_here(uint64_t bound);

#endif
