/*
 * mask.h: the signals that one fiber blocks. The kernel keeps a mask for each thread, which all fibers of a carrier
 * would share.
 */
#ifndef MILLRACE_FIBER_MASK_H
#define MILLRACE_FIBER_MASK_H

#include <stdint.h>

typedef struct mr_fiber mr_fiber;

/* As the kernel has it: bit n - 1 for signal n. errno may change. */
uint64_t mf_mask_of_thread(void);

/* The running fiber may have changed the mask of its thread: from now on it is the fiber's. */
void mf_mask_note_change(void);

/* Around a switch, for a fiber that has a mask of its own: the carrier's in its place, and back. errno may change. */
void mf_mask_put_off(mr_fiber *fiber);
void mf_mask_put_on(const mr_fiber *fiber);

#endif
