/*
 * emptied.h: must a fiber that receives again wait first?
 *
 * A receive on a stream that got less than it asked for has most likely emptied the socket. A fiber that comes back
 * for more waits first, and is spared an attempt in vain. If the guess is wrong, the wait ends at once.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_EMPTIED_H
#define MILLRACE_FIBER_INTERPOSE_EMPTIED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Did the last receive of the running fiber empty this descriptor? */
bool mf_seems_empty(int descriptor);

/* A receive of `wanted` bytes by the running fiber ended with `received`. errno stays as it is. */
void mf_note_received(int descriptor, size_t wanted, ssize_t received);

#endif
