/*
 * mask.h: the signals that a fiber blocks.
 *
 * The kernel has one mask per thread. All fibers of a carrier would share it, and carriers block nearly all signals. So
 * each fiber has its own mask, which equals that of the program's threads until the fiber changes it. While the fiber
 * runs, its carrier blocks the signals that either of them blocks, except those that the fiber has allowed.
 */
#ifndef MILLRACE_FIBER_MASK_H
#define MILLRACE_FIBER_MASK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct mr_fiber mr_fiber;

/* Masks have the kernel's form: bit n - 1 is signal n. The first words of libc's sets have the same form. */
#define MF_MASK_BIT(signal_number) (UINT64_C(1) << ((signal_number)-1))

static inline uint64_t mf_mask_of_set(const sigset_t *set)
{
    uint64_t mask;
    memcpy(&mask, set, sizeof mask);
    return mask;
}

static inline void mf_mask_to_set(uint64_t mask, sigset_t *set)
{
    sigemptyset(set);
    memcpy(set, &mask, sizeof mask);
}

/* The thread's mask. May change errno. */
uint64_t mf_mask_of_thread(void);

/* Sets the thread's mask for a while, without changing the fiber's, and returns the previous one. errno may change. */
uint64_t mf_mask_set(uint64_t mask);

/* Removes the signal if it is pending for this thread, which blocks it. errno may change. */
bool mf_mask_consume(int signal_number);

/* Call these around a lock that a signal handler may acquire too, on any thread: the first blocks all signals, the
 * second restores the mask. Carriers block signals already, except those that a fiber allows. */
typedef struct mf_mask_saved {
    bool holds;
    uint64_t before;
} mf_mask_saved;

mf_mask_saved mf_mask_block_all(void);
void mf_mask_unblock(mf_mask_saved hold);

/* The signals that the running fiber blocks, as it sees them. Threads and processes that it starts begin with this
 * mask. */
uint64_t mf_mask_of_fiber(void);

/* Changes this mask as pthread_sigmask does. Keeps errno. */
void mf_mask_change(int how, uint64_t set);

/* Restores earlier requests of the running fiber. May change errno. */
void mf_mask_restore(uint64_t added, uint64_t removed);

/* Runs the handlers of signals that the running fiber has sent to itself and does not block, each with the mask that
 * it was installed with. errno may change. */
void mf_mask_deliver_awaited(void);

/* The mask of one wait of the running fiber, as an argument of ppoll and its variants. */
typedef struct mf_mask_of_wait {
    uint64_t allows; /* signals that end the wait when they are pending; everything is blocked until mf_mask_handle */
    bool holds;      /* there is a mask to restore */
    bool was_own;
    uint64_t added, removed, before;
} mf_mask_of_wait;

/* Blocks the signals of the wait. `set` may be NULL: no mask. */
mf_mask_of_wait mf_mask_begin_wait(const sigset_t *set);

/* True if a signal is pending that ends the wait. */
bool mf_mask_is_pending(const mf_mask_of_wait *wait);

/* Delivers pending signals that are allowed, each once. A handler may leave by a jump. Keeps errno, as mf_mask_end_wait
 * does. */
typedef enum mf_mask_outcome { MF_MASK_NOTHING, MF_MASK_WITHOUT_HANDLER, MF_MASK_HANDLED } mf_mask_outcome;

mf_mask_outcome mf_mask_handle(const mf_mask_of_wait *wait);

/* Restores the mask. */
void mf_mask_end_wait(const mf_mask_of_wait *wait);

/* Signals that a fiber has sent to itself and blocks, while it does not run. Further ones stay with the carrier,
 * whose other fibers may receive them. */
enum { MF_PENDING_SIGNALS_MAX = 16 };

typedef struct mf_pending_signals {
    unsigned count;
    siginfo_t signals[MF_PENDING_SIGNALS_MAX]; /* in their order */
} mf_pending_signals;

/* Call these around a switch, for a fiber that has its own mask or waits for a signal: the first sets the carrier's
 * mask, the second restores the fiber's. `kept` is empty before; it may be NULL if the fiber waits for no signal. errno
 * may change. */
void mf_mask_suspend(mr_fiber *fiber, mf_pending_signals *kept);
void mf_mask_resume(mr_fiber *fiber, mf_pending_signals *kept);

#endif
