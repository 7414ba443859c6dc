/*
 * emptied.h: does a fiber that receives again have to wait?
 *
 * A receive on a stream that took less than it asked for has emptied the socket, most likely. A fiber that comes back for
 * more waits first, and is spared a try in vain. That it may be wrong does not matter: a wait for what is there ends at
 * once.
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
