/*
 * backend.h: the seam between the loop and the operating system.
 *
 * Each file or folder in backend/ defines one table of these functions. A backend never includes another one, and knows of
 * the loop only what loop.h shows. What it keeps for an operation or of a descriptor is a type of its own, in the `part` of
 * the slot or descriptor. All functions but `wait` and `wake` run as the owner.
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
    /* Ends what waits in a direction that was shut down, as POSIX has it. NULL: the system does. */
    void (*end_shut)(mr_loop *loop, mr_descriptor *descriptor, int direction);
    /* Does it take an MR_SEND_THEN_RECEIVE from its first half on? Otherwise the loop attempts that and submits the
       second. */
    bool sends_first;
    /* Performs an operation that must not wait, or tries to: -EAGAIN if it would block. */
    int64_t (*attempt)(mr_loop *loop, mr_slot *slot);
    /* Holds a result back, to settle the operation with it later: true. NULL: never. */
    bool (*hold)(mr_loop *loop, mr_slot *slot, int64_t result);
    /* Forgets a descriptor that has no operations left and is about to be closed. */
    void (*detach)(mr_loop *loop, mr_descriptor *descriptor);
    /* Gives a descriptor back to the system. 0 or a negative errno; the number is free in either case. */
    int (*close)(mr_loop *loop, int number);

    /* Hands over what is queued and settles what has ended. Does not block. */
    void (*poll)(mr_loop *loop);
    /* Hands over what is queued, for a loop whose owner sleeps. False if something is left, which only a poll will hand
     * over. */
    bool (*flush)(mr_loop *loop);
    /* Is there something for poll to do already? */
    bool (*has_work)(mr_loop *loop);
    /* Aborts if what the backend keeps is not as it should be: see mr_loop_check. NULL: it keeps nothing. */
    void (*check)(const mr_loop *loop);
    /* Blocks until poll has something to do, somebody wakes the loop, or the time comes. Changes nothing that the
     * other functions look at without synchronisation. */
    void (*wait)(const mr_loop *loop, uint64_t until_ns);
    /* Ends the current wait, or the next one, unless a poll comes first. Runs on any thread. */
    void (*wake)(mr_loop *loop);
} mr_backend_operations;

/* Which backends a build has: those of its system, and what its builder adds (tests: kqueue over a double). */
#ifdef __linux__
#define MR_HAS_IO_URING
#define MR_HAS_EPOLL
#define MR_HAS_HYBRID
#elif defined(_WIN32)
#define MR_HAS_IOCP
#else
#define MR_HAS_KQUEUE
#endif
#ifndef _WIN32
#define MR_HAS_SIM
#endif

extern const mr_backend_operations mr_io_uring_backend;
extern const mr_backend_operations mr_epoll_backend;
extern const mr_backend_operations mr_hybrid_backend;
extern const mr_backend_operations mr_kqueue_backend;
extern const mr_backend_operations mr_iocp_backend;
extern const mr_backend_operations mr_sim_backend;

/* The functions of a backend; NULL for MR_BACKEND_AUTO, and for what belongs to another system. */
const mr_backend_operations *mr_backend_operations_of(mr_backend backend);

/* What to do with a backend that works according to its probe: 0, or why it does not do after all. */
typedef int mr_use_backend(mr_backend backend, void *context);

/* Uses the backend that was asked for, or the first one that can be used. The last error if there is none. */
int mr_backend_use_first(mr_backend requested, mr_owners owners, mr_use_backend *use, void *context);

/* For tests: new loops behave as where no memory is left for the kernel to choose buffers from. */
extern bool mr_io_uring_without_buffer_rings;

#endif
