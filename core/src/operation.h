/*
 * operation.h: the properties of a kind of operation, from the table operation.def. Must not know: loops, system calls.
 */
#ifndef MILLRACE_OPERATION_H
#define MILLRACE_OPERATION_H

#include "millrace.h"

#include <errno.h>
#include <stdbool.h>

/* The traits that a row of the table may have. */
enum {
    MR_MOVES_BYTES = 1 << 0,    /* its result is a number of bytes */
    MR_RECEIVES = 1 << 1,       /* ... which were received from a socket */
    MR_SENDS = 1 << 2,          /* ... which were sent from memory to a socket */
    MR_HAS_VECTOR = 1 << 3,     /* ... and are in the elements of a vector */
    MR_HAS_OFFSET = 1 << 4,     /* `offset` is an offset in a file */
    MR_IS_ON_FILE = 1 << 5,     /* works on a file itself: never waits for readiness */
    MR_IS_WAIT = 1 << 6,        /* only waits; foreign descriptors are allowed */
    MR_NEVER_QUEUES = 1 << 7,   /* begins although others of its direction wait */
    MR_IS_INTERRUPTED = 1 << 8, /* mr_group_interrupt ends it */
    MR_WRITES = 1 << 9          /* moves bytes from memory; moving none of them is an error */
};

/* The traits of each kind. Static, so that the compiler sees them: a test of a trait reads memory that is always in the
 * cache. */
static const uint16_t mr_operation_traits[MR_KIND_COUNT] = {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) [MR_##NAME] = (TRAITS),
#include "operation.def"
};

static const uint8_t mr_operation_directions[MR_KIND_COUNT] = {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) [MR_##NAME] = MR_##DIRECTION,
#include "operation.def"
};

/* True if a kind has one of these traits. */
static inline bool mr_has_trait(mr_kind kind, unsigned traits)
{
    return mr_operation_traits[kind] & traits;
}

static inline int mr_direction_of(mr_kind kind)
{
    return mr_operation_directions[kind];
}

static inline bool mr_is_wait(mr_kind kind)
{
    return mr_has_trait(kind, MR_IS_WAIT);
}

static inline bool mr_is_on_file(mr_kind kind)
{
    return mr_has_trait(kind, MR_IS_ON_FILE);
}

/*
 * The result with which a waiting operation ends when a direction is shut down: a negative errno, or 0. -EAGAIN: it
 * continues to wait. On a datagram socket or a listening Unix socket, Linux ends a blocking call, but returns EAGAIN
 * for ever to a non-blocking one.
 */
int mr_when_shut(mr_kind kind, mr_direction shut);

#endif
