/* shutdown.h: MR_SHUTDOWN, which ends the operations that wait in a direction, on every loop. Must not know: system
 * calls. */
#ifndef MILLRACE_SHUTDOWN_H
#define MILLRACE_SHUTDOWN_H

#include "loop.h"

/* Performs an MR_SHUTDOWN. */
void mr_shutdown_perform(mr_loop *loop, mr_slot *slot);

/* Ends this loop's operations that wait on a handle after a shutdown (`how`: SHUT_RD, ...). Where the backend has no
 * end_shut, the system ends most of them by itself. */
void mr_shutdown_end(mr_loop *loop, mr_handle handle, int how);

#endif
