/*
 * scheduler.h: controls when GHC's scheduler switches threads, for simulations, whose runs must be repeatable.
 *
 * Every function needs the layout: without it there are no simulations (mrh_simulation_begin). All are for `unsafe`
 * calls.
 */
#ifndef MILLRACE_GHC_SCHEDULER_H
#define MILLRACE_GHC_SCHEDULER_H

/* Stops GHC's timer, and waits for ticks that have begun (200 microseconds). From then on threads switch only where
 * they wait or yield. */
void mrh_stop_ticking(void);
void mrh_start_ticking(void);

/* Begins another block of the nursery and cancels a requested context switch, so that later switches do not depend on
 * earlier allocations. */
void mrh_begin_nursery_block(void);

/* 1 if there will be a garbage collection soon, else 0. Begins a block, too. A collection may switch threads, as the
 * end of a block does. So the simulation's manager collects before that, while it runs itself. */
int mrh_nursery_is_low(void);

/* 1 if another thread of this capability is ready to run, else 0. */
int mrh_others_can_run(void);

/* How many threads of this capability are in a safe foreign call. This includes managers of real loops that wait. */
int mrh_calls_under_way(void);

#endif
