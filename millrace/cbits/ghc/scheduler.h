/*
 * scheduler.h: when GHC's scheduler changes threads, for simulations, whose runs must repeat.
 *
 * All of it needs the layout: without it there are no simulations (mrh_simulation_begin refuses). For `unsafe` calls.
 */
#ifndef MILLRACE_GHC_SCHEDULER_H
#define MILLRACE_GHC_SCHEDULER_H

/* Stops GHC's timer. From here on threads switch only where they wait or yield. Waits for ticks that have begun. */
void mrh_stop_ticking(void);
void mrh_start_ticking(void);

/* Begins another block of the nursery and cancels a requested context switch, so that later switches do not depend on what was
 * allocated before. */
void mrh_begin_block(void);

/* Will there be a garbage collection soon? Begins a block, too. A collection may switch threads, as the end of a block does.
 * So the simulation's manager collects beforehand, while it runs itself. */
int mrh_nursery_is_low(void);

/* Are other threads of this capability ready to run? */
int mrh_others_can_run(void);

/* How many threads of this capability are in a safe foreign call. This includes managers of real loops that wait. */
int mrh_calls_under_way(void);

#endif
