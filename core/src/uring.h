/*
 * uring.h: shared by the backends that use io_uring: opens a ring, probes the kernel's io_uring, and prepares
 * operations on files.
 *
 * Must not know: backends.
 */
#ifndef MILLRACE_URING_H
#define MILLRACE_URING_H

#include "loop.h"

#include <liburing.h>

/* How a ring delivers completions. Shared: COOP_TASKRUN (5.19), the kernel does not interrupt the running thread to
 * deliver. Older kernels refuse that flag and are not supported: they do not report whether a receive has emptied the
 * socket, and some refuse POLL_FIRST or end an accept that would wait. Tied: the ring is disabled until its owner
 * thread enables it. */
enum {
    MR_URING_SHARED = IORING_SETUP_COOP_TASKRUN,
    MR_URING_TIED =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
};

/* Opens a ring. `delivery` is MR_URING_SHARED or MR_URING_TIED. Returns 0 or a negative errno. */
int mr_uring_open(struct io_uring *ring, unsigned entries, unsigned completion_entries, unsigned delivery);

/* Returns 0, or a negative errno and a sentence with the reason if io_uring cannot be used here. */
int mr_uring_probe(char *reason, size_t reason_size);

/*
 * True if a descriptor has positions. On one without (sockets, pipes, terminals, event descriptors) io_uring ignores
 * the offset: it would take bytes from a stream, wait on a thread of the kernel, or raise SIGPIPE. A preadv with an
 * empty vector fails on it, and reads nothing.
 */
bool mr_uring_has_positions(mr_loop *loop, int number);

/* Fills in the submission entry of an operation on a file. */
void mr_uring_prepare_file(struct io_uring_sqe *entry, mr_slot *slot);

/*
 * Converts the kernel's result of an operation on a file; -EAGAIN: submit it again. `faults` belongs to the operation
 * and is 0 at its beginning.
 */
int64_t mr_uring_result_on_file(mr_loop *loop, mr_slot *slot, int32_t answer, uint8_t *faults);

#endif
