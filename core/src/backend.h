/*
 * backend.h: the interface between a loop and the operating system.
 *
 * Each file or folder in backend/ defines one table of these functions. A backend never includes another one, and uses
 * of the loop only what loop.h declares. It keeps its own data for an operation or a descriptor in the `backend_data`
 * of the slot or descriptor. The loop's owner calls all functions except `wait` and `wake`.
 */
#ifndef MILLRACE_BACKEND_H
#define MILLRACE_BACKEND_H

#include "loop.h"

typedef struct mr_backend_operations {
    /* Returns 0, or a negative errno and a sentence with the reason if this backend cannot run here. */
    int (*probe)(char *reason, size_t reason_size);

    int (*create)(mr_loop *loop);
    void (*destroy)(mr_loop *loop);
    /* In the child of a fork: closes descriptors and frees memory, without touching kernel objects that the parent
     * uses. */
    void (*abandon)(mr_loop *loop);

    /* Carries out an operation, now or later, and passes its result to mr_loop_settle. */
    void (*submit)(mr_loop *loop, mr_slot *slot);
    /* Asks a pending operation to end. The backend settles it with -ECANCELED, at once or later, unless it completes
     * first. */
    void (*cancel)(mr_loop *loop, mr_slot *slot);
    /* Ends the operations that wait in a direction that was shut down, as POSIX does. NULL: the system ends them. */
    void (*end_shut)(mr_loop *loop, mr_descriptor *descriptor, int direction);
    /* True if the backend carries out both halves of an MR_SEND_THEN_RECEIVE. Otherwise the loop attempts the send
     * itself, and submits only the receive. */
    bool sends_first;
    /* Tries an operation once, without blocking. Returns -EAGAIN if it would block. */
    int64_t (*attempt)(mr_loop *loop, mr_slot *slot);
    /* May delay a result: then it returns true, and settles the operation later. NULL: never. */
    bool (*delay)(mr_loop *loop, mr_slot *slot, int64_t result);
    /* Forgets a descriptor that has no operations left and is about to be closed. */
    void (*detach)(mr_loop *loop, mr_descriptor *descriptor);
    /* Closes a descriptor. Returns 0 or a negative errno; the number is free in either case. */
    int (*close)(mr_loop *loop, int number);

    /* Submits queued entries to the system and settles operations that have ended. Does not block. */
    void (*poll)(mr_loop *loop);
    /* Submits queued entries to the system, for a loop whose owner sleeps. Returns false if some are left, which only a
     * poll will submit. */
    bool (*flush)(mr_loop *loop);
    /* True if poll has something to do. */
    bool (*has_work)(mr_loop *loop);
    /* Checks the backend's own records: see mr_loop_check. NULL: it has none. */
    void (*check)(const mr_loop *loop);
    /* Blocks until poll has something to do, a thread wakes the loop, or `until_ns` has come. It changes nothing that
     * the other functions read without synchronisation. */
    void (*wait)(const mr_loop *loop, uint64_t until_ns);
    /* Ends the current wait, or the next one, unless a poll comes first. Runs on any thread. */
    void (*wake)(mr_loop *loop);
} mr_backend_operations;

/* The backends of a build: those of its system, and those that its builder adds (tests: kqueue over a simulated
 * kevent). */
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

/* The functions of a backend; NULL for MR_BACKEND_AUTO, and for backends of other systems. */
const mr_backend_operations *mr_backend_operations_of(mr_backend backend);

/* Uses a backend whose probe succeeded. Returns 0, or a negative errno if the backend cannot be used after all. */
typedef int mr_use_backend(mr_backend backend, void *context);

/* Uses the requested backend, or the first one that can be used. Returns 0, or the last error if there is none. */
int mr_backend_use_first(mr_backend requested, mr_owners owners, mr_use_backend *use, void *context);

/* For tests: new loops behave as if the kernel had no memory for provided buffers. */
extern bool mr_io_uring_without_buffer_rings;

#endif
