/*
 * process.h: starting programs, and what becomes of them (Linux). Must not know: GHC, loops.
 */
#ifndef MILLRACE_PROCESS_H
#define MILLRACE_PROCESS_H

#include "pool.h"

/* The process group of a new process. */
enum { MRH_SAME_GROUP, MRH_NEW_GROUP, MRH_NEW_SESSION, MRH_NEW_TERMINAL };

/*
 * Starts a program. The memory has strings, each with a NUL: the program (looked for in PATH unless it has a slash), the
 * directory (empty: this one), the arguments beginning with the program's name, the environment ("NAME=value"), and limits
 * ("resource soft hard", each a number). The numbers are: the standard streams (three descriptors), the number of arguments,
 * that of the environment (-1: this program's), that of limits, the group (MRH_SAME_GROUP, ...), user and group (-1: those of
 * this program).
 *
 * The process has no other descriptor of this program, no signal blocked and none ignored. The result is its number << 32 |
 * a descriptor for it (CLONE_PIDFD of clone(2)), which exec closes; or a negative errno: that of exec, too.
 */
mrh_work mrh_do_spawn;

/* Whether anything runs in the group with this number. A process that has ended and was not reaped does not run. */
mrh_work mrh_do_group_runs;

/* Sends a signal: to the process, or to the group that it has begun. 0, or a negative errno. Before Linux 6.9 the group
 * is named by the process's number, and is gone (-ESRCH) when the process was reaped. */
int mrh_signal_process(int pidfd, int signal_number);
int mrh_signal_group(int pidfd, int process, int signal_number);

/* Reaps a process: 0 if it has not ended, else 1 << 32 | whether a signal killed it << 31 | its exit code or the number of the
 * signal; or a negative errno. */
int64_t mrh_reap(int pidfd);

/* /dev/null, which exec closes; or a negative errno. */
int mrh_open_null(void);

/* A new pseudo-terminal: the program's side (non-blocking), and that of a process. 0, or a negative errno. */
int mrh_open_pty(int *ours, int *theirs, int rows, int columns);

#endif
