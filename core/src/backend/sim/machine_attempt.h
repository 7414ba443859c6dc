/* machine_attempt.h: tries an operation once on a simulated machine. */
#ifndef MILLRACE_SIM_MACHINE_ATTEMPT_H
#define MILLRACE_SIM_MACHINE_ATTEMPT_H

#include "../../backend.h"
#include "../../machine/machine.h"

/* Tries an operation once. Returns its result; -EAGAIN if it would block. Of the faults only MR_FAULT_SHORT and
 * MR_FAULT_STALL have an effect here. */
int64_t mr_sim_attempt(mr_machine *machine, mr_slot *slot, mr_fault fault);

#endif
