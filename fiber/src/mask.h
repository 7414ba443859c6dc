/*
 * mask.h: the signals that one fiber blocks. The kernel keeps a mask for each thread, which all fibers of a carrier
 * would share; and carriers block nearly everything, which is nobody's wish. So a fiber has a mask of its own, that of
 * the program's threads until it asks for another. While it runs its carrier blocks what either of them does, but for
 * what the fiber has let in.
 */
#ifndef MILLRACE_FIBER_MASK_H
#define MILLRACE_FIBER_MASK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct mr_fiber mr_fiber;

/* Masks are as the kernel has them: bit n - 1 for signal n. So are the first words of libc's sets. */
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

/* Tells what the thread had blocked before. Past the fiber: a mask for a while. errno may change. */
uint64_t mf_mask_set(uint64_t mask);

/* Takes the signal back if it is pending for this thread, which blocks it. errno may change. */
bool mf_mask_take(int signal_number);

/* Around a lock that a signal's handler may take too, on any thread. Carriers block signals already, but for those that
 * a fiber lets in. */
typedef struct mf_hold {
    bool holds;
    uint64_t before;
} mf_hold;

mf_hold mf_mask_hold(void);
void mf_mask_let_go(mf_hold hold);

/* What the running fiber has blocked, as it is told, and as a thread or a process begins that it starts. */
uint64_t mf_mask_of_fiber(void);

/* Changes that as pthread_sigmask does. errno stays as it is. */
void mf_mask_change(int how, uint64_t set);

/* The running fiber's requests, added and removed, as they were before. errno may change. */
void mf_mask_restore(uint64_t added, uint64_t removed);

/* Has the handlers run of what the running fiber has sent to itself and does not block, each with the mask that it was
 * installed with. errno may change. */
void mf_mask_let_in_awaited(void);

/* The mask of one wait of the running fiber, as ppoll and its relatives take one. */
typedef struct mf_mask_of_wait {
    uint64_t lets_in; /* what ends the wait when it is pending: everything is blocked until mf_mask_handle */
    bool holds;       /* there is anything to put back */
    bool was_own;
    uint64_t added, removed, before;
} mf_mask_of_wait;

/* `set` may be NULL: no mask. */
mf_mask_of_wait mf_mask_begin_wait(const sigset_t *set);

bool mf_mask_is_pending(const mf_mask_of_wait *wait);

/* What is let in and pending comes, each signal once. A handler may leave by a jump. errno stays as it is, here and below. */
typedef enum mf_mask_came { MF_MASK_NOTHING, MF_MASK_WITHOUT_HANDLER, MF_MASK_HANDLED } mf_mask_came;

mf_mask_came mf_mask_handle(const mf_mask_of_wait *wait);

void mf_mask_end_wait(const mf_mask_of_wait *wait);

/* What a fiber has sent to itself and blocks, while it does not run. More of them stay with the carrier, whose other fibers
 * may meet them. */
enum { MF_MASK_KEPT_MAX = 16 };

typedef struct mf_mask_kept {
    unsigned count;
    siginfo_t signals[MF_MASK_KEPT_MAX]; /* in their order */
} mf_mask_kept;

/* Around a switch, for a fiber that has a mask of its own, or awaits a signal: the carrier's in its place, and back. `kept`,
 * empty before, may be NULL for one that awaits none. errno may change. */
void mf_mask_put_off(mr_fiber *fiber, mf_mask_kept *kept);
void mf_mask_put_on(mr_fiber *fiber, mf_mask_kept *kept);

#endif
