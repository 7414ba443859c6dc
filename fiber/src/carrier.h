/* carrier.h: the OS threads that run fibers, and what the rest of the library must know about a fiber. */
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

/* What other threads ask a carrier to do with one of its fibers. */
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
    void *scheduler; /* where the carrier's own context continues when a fiber switches away */
    mf_sanitizer sanitizer;
    void *signal_stack;
    mr_fiber *ready_first, *ready_last;
    mr_fiber *ended;             /* it has switched away for the last time */
    _Atomic(mf_message *) inbox; /* newest first */
    atomic_uint load;            /* fibers that were placed here and have not ended */
    atomic_bool stopping;
    _Atomic(mr_fiber *) running; /* for the watchdog, with the four that follow */
    _Atomic uint64_t turns;      /* odd while a fiber runs */
    _Atomic uintptr_t sampled_place;
    int thread_id;
    mf_lock running_lock; /* held by the watchdog while it reads `running`, so that the fiber does not end meanwhile */
    atomic_uint posting;  /* threads between putting a message into the inbox and having woken the loop */
} mf_carrier;

/* A pthread lock that a fiber holds, and where it was taken. */
typedef struct mf_held {
    const void *lock;
    const void *place;
} mf_held;

enum { MF_HELD_MAX = 4 };

/* The socket that a fiber received from last. */
typedef struct mf_stream_seen {
    int descriptor;
    unsigned closes; /* mf_watch_closes() at that time; the rest is valid while that is unchanged */
    bool is_stream;
    bool is_emptied;
} mf_stream_seen;

/* The signals that a fiber blocks: see mask.h. */
typedef struct mf_mask {
    uint64_t blocked; /* used by the carrier when the fiber continues, saved when the fiber is suspended */
    uint64_t added;   /* what the fiber has asked to block, beyond what the program's threads do, and */
    uint64_t removed; /* not to block */
    uint64_t awaited; /* signals it has sent to itself while it blocked them */
    bool is_own;      /* what is blocked while it runs is not what the carrier blocks anyway */
    bool has_sigpipe; /* pending, while the fiber does not run */
} mf_mask;

struct mr_fiber {
    void *context; /* where it continues, while it does not run */
    mf_carrier *carrier;
    mr_fiber *next_ready;
    int interruption;   /* an error for the next wait that can be interrupted, or 0 */
    int interrupted_by; /* the one that ended the last wait, or 0 */
    bool has_roused;    /* `interruption` has already ended a wait: see MF_ROUSABLE */
    mf_wait *waiting;   /* a wait that can be interrupted, or NULL */
    mf_mask mask;
    unsigned calls;      /* interposed calls in this turn that did not wait: see mf_spend_turn */
    mf_stream_seen seen; /* see interpose/emptied.h */
    mf_message resume, interrupt;
    atomic_int interrupt_error; /* on its way to `interruption` */
    void *(*run)(void *);
    void *argument;
    void *result;
    mf_lock lock; /* protects the two that follow; while it is held the fiber does not end */
    bool has_ended;
    mf_queue joiners;
    atomic_uint references;
    unsigned carrier_index;    /* for callers that ask after the carrier has ended */
    mf_held held[MF_HELD_MAX]; /* kept only when asked for: see report/held.c */
    unsigned held_count;
    mf_sanitizer sanitizer;
    mf_stack stack;
    char name[MR_FIBER_NAME_BYTES];
};

/* The fiber that runs on this thread. NULL on an OS thread, in the scheduler, and inside the core. In these places
 * interposed calls must be libc's. */
extern __thread mr_fiber *mf_current;

/* The carrier that this thread is, or NULL. */
extern __thread mf_carrier *mf_this_carrier;

/* Call these around calls of millrace.h on a fiber. */
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

/* Switches from the running fiber to its carrier's scheduler; returns when the fiber is made ready and its turn
 * comes. */
void mf_suspend(void);

/* Continues a suspended fiber, or one that is about to suspend. Call it once for each mf_suspend. [any thread] */
void mf_make_ready(mr_fiber *fiber);

/* Creates the carriers of the runtime, one for each loop, and starts their threads. They own the loops. Returns 0,
 * or a negative errno; then only the group is left. */
int mf_carriers_create(mf_carrier **carriers, unsigned count, mr_loop **loops, mf_runtime *runtime);

/* Ends the threads, which must have no fibers, and frees the carriers and their loops. */
void mf_carriers_destroy(mf_carrier *carriers, unsigned count);

/* The signals that the thread which started the carriers blocked. */
uint64_t mf_carrier_programs_mask(void);

/* fiber.c: the first function of every fiber. */
void mf_fiber_main(void *fiber);

/* fiber.c: gives up one of the references that keep a fiber's record. */
void mf_fiber_unreference(mr_fiber *fiber);

/* fiber.c: the end of a fiber, on its carrier's own stack. */
void mf_fiber_bury(mr_fiber *fiber);

#endif
