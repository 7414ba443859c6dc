/*
 * backend.h: the seam between the loop and the operating system.
 *
 * Each file in backend/ defines one table of these functions. A backend never includes another one, and knows of the
 * loop only what loop.h shows. All functions but `wait` run as the owner.
 */
#ifndef MILLRACE_BACKEND_H
#define MILLRACE_BACKEND_H

#include "loop.h"

typedef struct mr_backend_operations {
    /* 0, or why this backend cannot run here: a negative errno and a sentence. */
    int (*probe)(char *reason, size_t reason_size);

    int (*create)(mr_loop *loop);
    void (*destroy)(mr_loop *loop);
    /* In the child of a fork: closes descriptors and frees memory, and leaves kernel objects alone. */
    void (*abandon)(mr_loop *loop);

    /* Carries out an operation, now or later; reports by mr_loop_settle. */
    void (*submit)(mr_loop *loop, mr_slot *slot);
    /* Hastens the end of a pending operation, which is then settled with -ECANCELED, at once or later. */
    void (*cancel)(mr_loop *loop, mr_slot *slot);
    /* Forgets a descriptor that has no operations left and is about to be closed. */
    void (*detach)(mr_loop *loop, mr_descriptor *descriptor);

    /* Hands over what is queued and settles what has ended. Does not block. */
    void (*poll)(mr_loop *loop);
    /* Hands over what is queued, for a loop whose owner sleeps. */
    void (*flush)(mr_loop *loop);
    /* Is there something for poll to do already? */
    bool (*has_work)(mr_loop *loop);
    /* Blocks until poll has something to do, the wake descriptor is readable, or the time comes. Changes nothing. */
    void (*wait)(const mr_loop *loop, uint64_t until_ns);
} mr_backend_operations;

extern const mr_backend_operations mr_io_uring_backend;
extern const mr_backend_operations mr_epoll_backend;

#endif
