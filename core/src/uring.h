/*
 * uring.h: what the backends that use io_uring share: opening a ring, whether this kernel's io_uring does what they need, and
 * operations on files.
 *
 * Must not know: backends.
 */
#ifndef MILLRACE_URING_H
#define MILLRACE_URING_H

#include "loop.h"

#include <liburing.h>

/* How a ring delivers. Shared: COOP_TASKRUN (5.19), the kernel does not interrupt the running thread to deliver. Older
 * kernels refuse it, and are not wanted: they do not say whether a receive has emptied the socket, and some refuse what
 * is asked of them then (POLL_FIRST) or end an accept that would wait. Tied: it belongs to nobody until its thread
 * enables it. */
enum {
    MR_URING_SHARED = IORING_SETUP_COOP_TASKRUN,
    MR_URING_TIED =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
};

/* 0 or a negative errno. */
int mr_uring_open(struct io_uring *ring, unsigned entries, unsigned completion_entries, unsigned delivery);

/* 0, or why io_uring cannot be used here: a negative errno and a sentence. */
int mr_uring_probe(char *reason, size_t reason_size);

/*
 * io_uring reads and writes what has no positions (sockets, pipes, terminals, event descriptors) where it stands: it would
 * take bytes from a stream, wait on a thread of the kernel, or raise SIGPIPE. preadv is told, and touches nothing for a
 * vector without elements.
 */
bool mr_uring_has_positions(mr_loop *loop, int number);

/* The submission entry of an operation on a file. */
void mr_uring_prepare_file(struct io_uring_sqe *entry, mr_slot *slot);

/*
 * What the kernel's answer means to an operation on a file; -EAGAIN: it must be begun again. `faults` belongs to the operation
 * and is 0 at its beginning.
 */
int64_t mr_uring_result_on_file(mr_loop *loop, mr_slot *slot, int32_t answer, uint8_t *faults);

#endif
