/*
 * last_receive.h: whether a fiber that receives again should wait first.
 *
 * A receive on a stream that did not fill its buffer has most likely emptied the socket. A fiber that receives again
 * waits first, which saves a failing attempt. If the guess is wrong, the wait ends at once.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_LAST_RECEIVE_H
#define MILLRACE_FIBER_INTERPOSE_LAST_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if the last receive of the running fiber has most likely emptied this descriptor. */
bool mf_seems_empty(int descriptor);

/* Records a receive of the running fiber: it asked for `wanted` bytes and returned `received`. Keeps errno. */
void mf_note_received(int descriptor, size_t wanted, ssize_t received);

#endif
