/*
 * scheduler.h: when GHC's scheduler changes threads, for simulations, whose runs must repeat.
 *
 * All of it needs the layout: without it there are no simulations (mrh_simulation_begin refuses). For `unsafe` calls.
 */
#ifndef MILLRACE_GHC_SCHEDULER_H
#define MILLRACE_GHC_SCHEDULER_H

/* From here on threads change only where they wait or yield: no timer asks for it. Waits for ticks that are under way. */
void mrh_stop_ticking(void);
void mrh_start_ticking(void);

/* Begins another block of the nursery and takes back a request to change threads, so that what threads do from here on does not
 * depend on what was allocated before. */
void mrh_begin_block(void);

/* Will there be a garbage collection before long? Begins a block, too. A collection changes threads like the end of a
 * block, so the simulation's manager sees to it that most of them come while it runs itself. */
int mrh_nursery_is_low(void);

/* Can other threads on this capability run, and wait for nothing else? */
int mrh_others_can_run(void);

/* How many threads of this capability are in a safe foreign call. Managers that wait for the real world are among them. */
int mrh_calls_under_way(void);

#endif
