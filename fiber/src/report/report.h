/*
 * report.h: reports of problems that otherwise show only as slowness: calls that are not interposed, fibers that occupy
 * a carrier for long, locks that a parked fiber holds. All reports are off by default.
 */
#ifndef MILLRACE_FIBER_REPORT_H
#define MILLRACE_FIBER_REPORT_H

#include "../carrier.h"

/* Switches on the reports that the options or MILLRACE_FIBER_DEBUG request. */
void mf_report_configure(const mr_carriers_options *options);

/* Reports one line, which has no final newline. */
void mf_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { MF_ADDRESS_TEXT_BYTES = 160 };

/* Describes an address: "PQexec+0x1c in /usr/lib/libpq.so.5" */
void mf_report_describe(char *text, const void *address);

/* uncovered.c: reports the results of mr_uncovered_calls, if requested. */
void mf_report_uncovered(void);

/* watchdog.c: starts and stops the thread that watches the carriers, if requested. */
void mf_watchdog_start(mf_carrier *carriers, unsigned count);
void mf_watchdog_stop(void);

/* Called by a carrier: returns when the watchdog no longer reads the fiber that has just run. */
void mf_watchdog_wait_for_reader(mf_carrier *carrier);

/* Called by a carrier at its start, so that the watchdog can sample it. */
void mf_watchdog_enter_carrier(mf_carrier *carrier);

extern bool mf_reports_uncovered, mf_reports_held_locks;
extern unsigned mf_watchdog_limit_ms;

/* held_locks.c: record that the running fiber has locked (in a call from `call_site`) or unlocked a pthread lock, or is
 * about to park. */
void mf_held_note_lock(const void *lock, const void *call_site);
void mf_held_note_unlock(const void *lock);
void mf_held_note_park(void);

#endif
