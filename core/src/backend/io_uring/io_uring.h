/* io_uring.h: submits an operation, as io_uring.c does. For the files of this folder only. */
#ifndef MILLRACE_IO_URING_H
#define MILLRACE_IO_URING_H

#include "ring.h"

void mr_ring_submit(mr_loop *loop, mr_slot *slot);

#endif
