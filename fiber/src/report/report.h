/*
 * report.h: reports of what would otherwise only be slow: calls that are not interposed, carriers that are held up,
 * locks that are held over a park. All of it is off by default.
 */
#ifndef MILLRACE_FIBER_REPORT_H
#define MILLRACE_FIBER_REPORT_H

#include "../carrier.h"

/* The reports that were requested, by the options or by MILLRACE_FIBER_DEBUG. */
void mf_report_configure(const mr_carriers_options *options);

/* Says one line, without the final newline. */
void mf_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { MF_PLACE_BYTES = 160 };

/* "PQexec+0x1c in /usr/lib/libpq.so.5" */
void mf_report_describe(char *text, const void *address);

/* uncovered.c: reports what mr_uncovered_calls finds, if that was requested. */
void mf_report_uncovered(void);

/* watchdog.c: the thread that watches the carriers, if that was requested. */
void mf_watchdog_start(mf_carrier *carriers, unsigned count);
void mf_watchdog_stop(void);

/* For the carrier: returns when the watchdog does not look at the fiber that has just run. */
void mf_watchdog_let_go(mf_carrier *carrier);

/* For the carrier: so that the watchdog can ask where it is. */
void mf_watchdog_enter_carrier(mf_carrier *carrier);

extern bool mf_reports_uncovered, mf_reports_held_locks;
extern unsigned mf_watchdog_limit_ms;

/* held.c: the running fiber has locked, or unlocked, a pthread lock in a call made at `place`; it is about to park. */
void mf_held_note_lock(const void *lock, const void *place);
void mf_held_note_unlock(const void *lock);
void mf_held_note_park(void);

#endif
