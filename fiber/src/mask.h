/*
 * mask.h: the signals that a fiber blocks.
 *
 * The kernel has one mask per thread. All fibers of a carrier would share it, and carriers block nearly all signals.
 * So each fiber has a mask of its own, which is that of the program's threads until the fiber changes it. While the
 * fiber runs, its carrier blocks the signals that either of them blocks, except those that the fiber has allowed.
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

/* errno may change. */
uint64_t mf_mask_of_thread(void);

/* Sets the thread's mask for a while, without changing the fiber's, and returns the previous one. errno may change. */
uint64_t mf_mask_set(uint64_t mask);

/* Removes the signal if it is pending for this thread, which blocks it. errno may change. */
bool mf_mask_take(int signal_number);

/* Call these around a lock that a signal handler may take too, on any thread. Carriers block signals already, except
 * those that a fiber allows. */
typedef struct mf_hold {
    bool holds;
    uint64_t before;
} mf_hold;

mf_hold mf_mask_hold(void);
void mf_mask_let_go(mf_hold hold);

/* The signals that the running fiber blocks, as it sees them. Threads and processes that it starts begin with this
 * mask. */
uint64_t mf_mask_of_fiber(void);

/* Changes this mask as pthread_sigmask does. errno stays as it is. */
void mf_mask_change(int how, uint64_t set);

/* The running fiber's requests, added and removed, as they were before. errno may change. */
void mf_mask_restore(uint64_t added, uint64_t removed);

/* Runs the handlers of signals that the running fiber has sent to itself and does not block, each with the mask that
 * it was installed with. errno may change. */
void mf_mask_let_in_awaited(void);

/* The mask of one wait of the running fiber, as ppoll and its relatives take one. */
typedef struct mf_mask_of_wait {
    uint64_t lets_in; /* signals that end the wait when they are pending; everything is blocked until mf_mask_handle */
    bool holds;       /* there is anything to put back */
    bool was_own;
    uint64_t added, removed, before;
} mf_mask_of_wait;

/* `set` may be NULL: no mask. */
mf_mask_of_wait mf_mask_begin_wait(const sigset_t *set);

bool mf_mask_is_pending(const mf_mask_of_wait *wait);

/* Delivers pending signals that are allowed, each once. A handler may leave by a jump. errno stays as it is, here and
 * below. */
typedef enum mf_mask_came { MF_MASK_NOTHING, MF_MASK_WITHOUT_HANDLER, MF_MASK_HANDLED } mf_mask_came;

mf_mask_came mf_mask_handle(const mf_mask_of_wait *wait);

void mf_mask_end_wait(const mf_mask_of_wait *wait);

/* Signals that a fiber has sent to itself and blocks, while it does not run. Further ones stay with the carrier,
 * whose other fibers may receive them. */
enum { MF_MASK_KEPT_MAX = 16 };

typedef struct mf_mask_kept {
    unsigned count;
    siginfo_t signals[MF_MASK_KEPT_MAX]; /* in their order */
} mf_mask_kept;

/* Call these around a switch, for a fiber that has its own mask or waits for a signal: the first puts the carrier's
 * mask in place, the second restores the fiber's. `kept` is empty before; it may be NULL if the fiber waits for no
 * signal. errno may change. */
void mf_mask_put_off(mr_fiber *fiber, mf_mask_kept *kept);
void mf_mask_put_on(mr_fiber *fiber, mf_mask_kept *kept);

#endif
