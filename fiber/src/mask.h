/*
 * mask.h: the signals that one fiber blocks. The kernel keeps a mask for each thread, which all fibers of a carrier
 * would share.
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

/* errno may change. */
uint64_t mf_mask_of_thread(void);

/* Tells what the thread had blocked before. Past the fiber: a mask for a while. errno may change. */
uint64_t mf_mask_set(uint64_t mask);

/* Around a lock that a signal's handler may take too, on any thread. Carriers block signals already, but for those that
 * a fiber lets in. */
typedef struct mf_hold {
    bool holds;
    uint64_t before;
} mf_hold;

mf_hold mf_mask_hold(void);
void mf_mask_let_go(mf_hold hold);

/* The running fiber has changed the mask of its thread in the way of pthread_sigmask: from now on it is the fiber's. */
void mf_mask_note_change(int how, const sigset_t *set);

/* What a thread or a process begins with that the running fiber starts: what the program's threads have blocked, but for
 * what the fiber itself has changed of that. Not the carrier's mask, which is nobody's wish. */
uint64_t mf_mask_to_inherit(void);

/* Around a switch, for a fiber that has a mask of its own: the carrier's in its place, and back. errno may change. */
void mf_mask_put_off(mr_fiber *fiber);
void mf_mask_put_on(const mr_fiber *fiber);

#endif
