/*
 * process.h: starts programs, signals them and reaps them. Linux only. Must not know: GHC, loops.
 */
#ifndef MILLRACE_PROCESS_H
#define MILLRACE_PROCESS_H

#include "pool.h"

/* The process group of a new process. */
enum { MRH_SAME_GROUP, MRH_NEW_GROUP, MRH_NEW_SESSION, MRH_NEW_TERMINAL };

/* Added to an error of mrh_do_spawn: the process could not join its cgroup. */
#define MRH_CGROUP_ERROR 10000

/*
 * Starts a program. The memory has strings, each with a NUL: the program (searched in PATH unless it has a slash), the
 * directory (empty: the current one), the path of the file cgroup.procs of its cgroup (empty: this program's), the
 * arguments beginning with the program's name, the environment ("NAME=value"),
 * and limits ("resource soft hard", each a number). The job's numbers are: three descriptors for the standard streams;
 * how many arguments, variables (-1: inherit the environment) and limits there are; the process group (MRH_SAME_GROUP,
 * ...); user and group (-1: unchanged).
 *
 * The process inherits no other descriptor, and no blocked or ignored signals. Result: its number << 32 | its pidfd
 * (clone(2)), which exec closes; or a negative errno, also that of exec.
 */
mrh_work mrh_do_spawn;

/* Result: 1 if a process of the group with this number runs, 0 if none does, or a negative errno. A process that has
 * ended does not run, even before it is reaped. */
mrh_work mrh_do_group_runs;

/* Send a signal to the process, or to the group that it leads. Return 0 or a negative errno. Before Linux 6.9,
 * mrh_signal_group needs the process's number, and returns -ESRCH once the process has been reaped. */
int mrh_signal_process(int pidfd, int signal_number);
int mrh_signal_group(int pidfd, int process, int signal_number);

/* Opens a process by its number. Returns its pidfd, or an error's negative code. */
int mrh_open_process(int process);

/* Reaps a process. Returns 0 if it has not ended, else 1 << 32 | (1 << 31 if a signal killed it) | its exit code or
 * that signal's number; or a negative errno. */
int64_t mrh_reap(int pidfd);

/* Whether this process adopts the orphans among its descendants. Returns 0 or a negative errno. */
int mrh_adopt_orphans(int adopts);

/* Reaps children that have ended and were not started by mrh_do_spawn. Result: how many. */
mrh_work mrh_do_reap_orphans;

/* Opens /dev/null. Returns a descriptor that exec closes, or a negative errno. */
int mrh_open_null(void);

/* Creates a pseudo-terminal: a non-blocking descriptor for this program, and one for a process. Returns 0 or a negative
 * errno. */
int mrh_open_pty(int *ours, int *theirs, int rows, int columns);

#endif
