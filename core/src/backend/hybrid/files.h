/*
 * files.h: the operations on files of one loop, carried out by a ring of io_uring.
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
    mr_slot_queue backlog; /* operations whose submission or cancellation found no room in the ring */
} mr_files;

/* 0 or a negative errno. */
int mr_files_open(mr_files *files);
void mr_files_close(mr_files *files);
/* In the child of a fork, which has not inherited the ring's memory. */
void mr_files_abandon(mr_files *files);

/* Reads from the page cache at once. Everything else is queued, and goes to the kernel with the next flush. */
void mr_files_submit(mr_loop *loop, mr_files *files, mr_slot *slot);

/* Asks the kernel to end an operation. What the disk already works on ends by itself. */
void mr_files_cancel(mr_loop *loop, mr_files *files, mr_slot *slot);

/* Hands over what is queued. False if the kernel has left something. */
bool mr_files_flush(mr_loop *loop, mr_files *files);

/* Settles what has ended. */
void mr_files_reap(mr_loop *loop, mr_files *files);

/* Is there something to hand over or to settle? */
bool mr_files_have_work(mr_files *files);

void mr_files_check(const mr_loop *loop, const mr_files *files);

#endif
