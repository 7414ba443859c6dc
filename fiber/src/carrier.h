/* carrier.h: the OS threads that run fibers, and the record of a fiber. */
#ifndef MILLRACE_FIBER_CARRIER_H
#define MILLRACE_FIBER_CARRIER_H

#include "lock.h"
#include "millrace_fiber.h"
#include "sanitize.h"
#include "stack.h"
#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A request of another thread to a carrier, about one of its fibers. */
typedef enum mf_message_kind { MF_MESSAGE_RESUME, MF_MESSAGE_INTERRUPT } mf_message_kind;

typedef struct mf_message {
    struct mf_message *next;
    mr_fiber *fiber;
    mf_message_kind kind;
} mf_message;

typedef struct mf_runtime mf_runtime; /* runtime.h */

typedef struct mf_carrier {
    unsigned index;
    mf_runtime *runtime;
    uint64_t blocked_signals; /* the mask while no fiber with its own mask runs: see mask.h */
    mr_loop *loop;
    pthread_t thread;
    void *scheduler; /* the carrier's own context, which continues when a fiber switches away */
    mf_sanitizer sanitizer;
    void *signal_stack;
    mr_fiber *ready_first, *ready_last;
    mr_fiber *ended;             /* a fiber that has switched away for the last time, or NULL */
    _Atomic(mf_message *) inbox; /* newest first */
    atomic_uint load;            /* the number of this carrier's fibers that have not ended */
    atomic_bool stopping;
    _Atomic(mr_fiber *) running; /* for the watchdog, as the next four fields */
    _Atomic uint64_t turns;      /* odd while a fiber runs */
    _Atomic uintptr_t sampled_address;
    int thread_id;
    mf_lock running_lock; /* held by the watchdog while it reads `running`, so that the fiber does not end */
    atomic_uint posting;  /* the number of threads that are posting a message */
} mf_carrier;

/* A pthread lock that a fiber holds, and the address of the call that locked it. */
typedef struct mf_held {
    const void *lock;
    const void *call_site;
} mf_held;

enum { MF_HELD_MAX = 4 };

/* The socket from which a fiber received last. */
typedef struct mf_last_receive {
    int descriptor;
    unsigned closes; /* mf_watch_closes() at that time; the record is valid while that is unchanged */
    bool is_stream;
    bool is_emptied;
} mf_last_receive;

/* The signals that a fiber blocks: see mask.h. */
typedef struct mf_mask {
    uint64_t blocked; /* used by the carrier when the fiber continues, saved when the fiber is suspended */
    uint64_t added;   /* signals that the fiber blocks and the program's threads do not */
    uint64_t removed; /* signals that the program's threads block and the fiber does not */
    uint64_t awaited; /* signals that it has sent to itself while it blocked them */
    bool is_own;      /* the mask while it runs differs from the carrier's */
    bool has_sigpipe; /* pending, while the fiber does not run */
} mf_mask;

struct mr_fiber {
    void *context; /* its saved context, while it does not run */
    mf_carrier *carrier;
    mr_fiber *next_ready;
    int interruption;   /* an error for the next interruptible wait, or 0 */
    int interrupted_by; /* the error that interrupted the last wait, or 0 */
    bool has_roused;    /* `interruption` has already ended a wait: see MF_ROUSABLE */
    mf_wait *waiting;   /* a wait that can be interrupted, or NULL */
    mf_mask mask;
    unsigned calls;               /* interposed calls since it was continued that did not wait: see mf_consume_budget */
    mf_last_receive last_receive; /* see interpose/last_receive.h */
    mf_message resume, interrupt;
    atomic_int interrupt_error; /* an error on its way to `interruption`, or 0 */
    void *(*run)(void *);
    void *argument;
    void *result;
    mf_lock lock; /* protects the next two fields; while it is held the fiber does not end */
    bool has_ended;
    mf_queue joiners;
    atomic_uint references;
    unsigned carrier_index;    /* remains valid after the carrier has ended */
    mf_held held[MF_HELD_MAX]; /* recorded only if requested: see report/held_locks.c */
    unsigned held_count;
    mf_sanitizer sanitizer;
    mf_stack stack;
    char name[MR_FIBER_NAME_BYTES];
};

/* The fiber that runs on this thread. NULL on an OS thread, in the scheduler, and inside the core; there interposed
 * calls must be libc's. */
extern __thread mr_fiber *mf_current;

/* The carrier whose thread this is, or NULL. */
extern __thread mf_carrier *mf_this_carrier;

/* Call these around calls of millrace.h on a fiber. In between, interposed calls are libc's. */
static inline mr_fiber *mf_enter_core(void)
{
    mr_fiber *fiber = mf_current;
    mf_current = NULL;
    return fiber;
}

static inline void mf_leave_core(mr_fiber *fiber)
{
    mf_current = fiber;
}

/* Switches from the running fiber to its carrier's scheduler. Returns when mf_make_ready was called and the scheduler
 * continues the fiber. */
void mf_suspend(void);

/* Continues a suspended fiber, or one that is about to suspend. Call it once for each mf_suspend. [any thread] */
void mf_make_ready(mr_fiber *fiber);

/* Creates the carriers of the runtime, one for each loop, and starts their threads. They own the loops. Returns 0, or a
 * negative errno; then the loops have been destroyed, but not their group. */
int mf_carriers_create(mf_carrier **carriers, unsigned count, mr_loop **loops, mf_runtime *runtime);

/* Ends the threads, which must have no fibers, and frees the carriers and their loops. */
void mf_carriers_destroy(mf_carrier *carriers, unsigned count);

/* The mask of the thread that started the carriers. */
uint64_t mf_carrier_programs_mask(void);

/* fiber.c: the first function of every fiber. */
void mf_fiber_main(void *fiber);

/* fiber.c: drops one of the references that keep a fiber's record. */
void mf_fiber_unreference(mr_fiber *fiber);

/* fiber.c: frees an ended fiber's stack and wakes its joiners. Runs on the carrier's own stack. */
void mf_fiber_finish(mr_fiber *fiber);

#endif
