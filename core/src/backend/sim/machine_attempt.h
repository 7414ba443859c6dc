/* machine_attempt.h: one operation, tried once on a simulated machine. */
#ifndef MILLRACE_SIM_MACHINE_ATTEMPT_H
#define MILLRACE_SIM_MACHINE_ATTEMPT_H

#include "../../backend.h"
#include "../../machine/machine.h"

/* Without blocking: -EAGAIN if the operation would. Of the faults, MR_FAULT_SHORT and MR_FAULT_STALL make a
   difference. */
int64_t mr_sim_attempt(mr_machine *machine, mr_slot *slot, mr_fault fault);

#endif
