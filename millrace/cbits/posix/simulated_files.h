/*
 * simulated_files.h: runs jobs on files and directories (work.h) on a simulated machine instead of helper threads. Must
 * not know: GHC.
 */
#ifndef MILLRACE_SIMULATED_FILES_H
#define MILLRACE_SIMULATED_FILES_H

#include "pool.h"

/* Begins a job within a simulation. Returns how many nanoseconds it takes on the machine's clock; -ENOSYS if no
 * simulation runs here or it has no such jobs; or the negative errno with which the job fails. */
int64_t mrh_job_simulate_begin(const mrh_job *job);

/* Does the job, on the simulation of this capability. */
void mrh_job_simulate(mrh_job *job);

#endif
