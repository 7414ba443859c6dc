/*
 * files.h: carries out a loop's operations on files by a ring of io_uring.
 *
 * Must not know: epoll.
 */
#ifndef MILLRACE_FILES_H
#define MILLRACE_FILES_H

#include "../../readiness.h"
#include "../../uring.h"

typedef struct mr_files {
    struct io_uring ring;
    unsigned unsubmitted;
    mr_slot_queue backlog; /* operations whose submission or cancellation found the ring full */
} mr_files;

/* Opens the ring. Returns 0 or a negative errno. */
int mr_files_open(mr_files *files);
void mr_files_close(mr_files *files);
/* Closes the ring in the child of a fork, which has not inherited the ring's memory. */
void mr_files_abandon(mr_files *files);

/* Carries out an operation. A read from the page cache completes at once; anything else is queued, and goes to the
 * kernel with the next flush. */
void mr_files_submit(mr_loop *loop, mr_files *files, mr_slot *slot);

/* Asks the kernel to end an operation. One on which the disk already works ends by itself. */
void mr_files_cancel(mr_loop *loop, mr_files *files, mr_slot *slot);

/* Submits the queued entries. Returns false if some are left. */
bool mr_files_flush(mr_loop *loop, mr_files *files);

/* Settles the operations that have ended. */
void mr_files_reap(mr_loop *loop, mr_files *files);

/* True if there is something to submit or to settle. */
bool mr_files_have_work(mr_files *files);

/* Checks the backlog: see mr_loop_check. */
void mr_files_check(const mr_loop *loop, const mr_files *files);

#endif
