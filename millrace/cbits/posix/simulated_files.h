/*
 * simulated_files.h: jobs on files and directories (work.h), done on a simulated machine instead of by helper threads.
 * Must not know: GHC.
 */
#ifndef MILLRACE_SIMULATED_FILES_H
#define MILLRACE_SIMULATED_FILES_H

#include "pool.h"

/* Begins a job within a simulation. Returns the nanoseconds that it takes on the machine's clock, -ENOSYS if such jobs have no
 * simulation, or another negative errno: it fails with this. */
int64_t mrh_job_simulate_begin(const mrh_job *job);

/* Does it. */
void mrh_job_simulate(mrh_job *job);

#endif
