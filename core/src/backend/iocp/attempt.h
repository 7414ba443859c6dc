/* attempt.h: attempts an operation without waiting. For the files of this folder only. */
#ifndef MILLRACE_PORT_ATTEMPT_H
#define MILLRACE_PORT_ATTEMPT_H

#include "port.h"

int64_t mr_port_attempt(mr_loop *loop, mr_slot *slot);

/* Makes an accepted socket non-blocking and not inherited, as accept4 does. Closes it and returns the error if that
 * fails. */
int64_t mr_port_set_flags_or_close(SOCKET number);

/* Converts the errors of a connection in the queue to -ECONNABORTED, because the listener works on. */
int mr_port_of_accept(int error);

#endif
