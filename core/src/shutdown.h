/* shutdown.h: MR_SHUTDOWN, which ends what waits in a direction, on every loop. Must not know: system calls. */
#ifndef MILLRACE_SHUTDOWN_H
#define MILLRACE_SHUTDOWN_H

#include "loop.h"

/* Performs an MR_SHUTDOWN. */
void mr_shutdown_perform(mr_loop *loop, mr_slot *slot);

/* A handle was shut down for SHUT_RD, SHUT_WR or both: ends what waits on this loop. Where the backend does not see to
 * it, most of it ends by itself. */
void mr_shutdown_end(mr_loop *loop, mr_handle handle, int how);

#endif
