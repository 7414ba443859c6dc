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

/* Begins one on this capability. 0, -EBUSY if one runs already, or why it cannot be made. From here until its end the
 * RTS's timer stands still: threads change only where they wait or yield. */
int mrh_simulation_begin(const mr_machine_plan *plan, mr_machine **machine, mr_loop **loop);
/* Ends it. Nothing may be in flight. */
void mrh_simulation_end(void);
/* The same when threads go on using it: what it has is never given back. */
void mrh_simulation_abandon(void);

/* In the child of a fork: none runs here, and what the parent's has is never given back. */
void mrh_simulation_forget(void);

/* The machine of the simulation that runs on this capability, or NULL. */
mr_machine *mrh_simulation_here(void);
/* The machine of the simulation that runs anywhere, or NULL. */
mr_machine *mrh_simulation_machine(void);

/* Is it a number of a simulated machine's? While there is none the system may use these numbers, too, if fs.nr_open was
 * raised. */
static inline bool mrh_is_simulated(int descriptor)
{
    return mr_machine_owns(descriptor) && mrh_simulation_machine();
}

/* The group that it adopts into, or NULL if none runs anywhere. */
mr_group *mrh_simulation_group(void);

/* What a thread on this capability is called in reports: the number of the running Haskell thread. */
uint64_t mrh_current_thread(void);

/* Makes what threads do from here on independent of what was allocated before. */
void mrh_begin_block(void);

/* Will there be a garbage collection before long? Begins a block, too. A collection changes threads like the end of a
 * block, so the simulation's manager sees to it that most of them come while it runs itself. */
int mrh_nursery_is_low(void);

/* Are there other threads on this capability that wait for nothing but their turn? */
int mrh_others_can_run(void);

/* A line for the trace. */
void mrh_note(mr_machine *where, const char *text);
uint64_t mrh_chance(mr_machine *where, uint64_t bound);

#endif
