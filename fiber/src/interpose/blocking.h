/*
 * blocking.h: emulates blocking calls on a descriptor: waits for readiness, timeouts and interruptions as libc's call
 * would.
 *
 * An interposed call first tries without blocking, and changes no flag of the descriptor that others could see. Only
 * after EAGAIN does it check whether the descriptor is in blocking mode, and for how long it may wait.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_BLOCKING_H
#define MILLRACE_FIBER_INTERPOSE_BLOCKING_H

#include "../carrier.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The state of one call that may wait, from its first EAGAIN to its end. */
typedef struct mf_blocking_call {
    int descriptor;
    mr_kind direction; /* MR_WAIT_READABLE or MR_WAIT_WRITABLE */
    bool has_waited;
    bool was_idle;       /* the last wait ended at once, without progress since */
    bool is_unannounced; /* it waits for something that the kernel does not report, for example SO_RCVLOWAT */
    bool is_local_send;  /* a send on a Unix socket that has waited: see mf_send_once */
    unsigned backoff_ms;
    uint64_t recheck_ns;  /* the longest wait of a send to a local socket before it checks again */
    uint64_t deadline_ns; /* of the socket's SO_RCVTIMEO or SO_SNDTIMEO */
} mf_blocking_call;

/*
 * Waits after an attempt that would have blocked, until another attempt makes sense. Returns false when the call is
 * over, with the reason in errno (EAGAIN: the descriptor is in non-blocking mode, or a timeout has passed; EBADF: it
 * was closed; EINTR).
 */
bool mf_wait_to_retry(mf_blocking_call *call);

/* True if the last wait for input ended because the socket is shut down for receiving. A blocking attempt then ends at
 * once and reports the end, which a non-blocking one on a datagram socket never does. May change errno. */
bool mf_is_shut_for_receiving(const mf_blocking_call *call);

/* Waits before the first attempt, if there is most likely nothing to receive and the descriptor is in blocking mode.
 * Returns false as mf_wait_to_retry does. */
bool mf_wait_to_try(mf_blocking_call *call);

/* Call this after an attempt that succeeded, if more may follow. */
static inline void mf_note_progress(mf_blocking_call *call)
{
    call->was_idle = false;
    call->backoff_ms = 0;
}

/* Pauses while polling for a condition that no event reports: 1 ms, doubling up to 20 ms. Returns false when the
 * deadline has passed (errno is EAGAIN), or after an interruption. */
bool mf_back_off(unsigned *backoff_ms, uint64_t deadline_ns);

/* True if O_NONBLOCK is set, or if the descriptor is bad. */
bool mf_is_nonblocking(int descriptor);

/* Records that a socket of this process has a timeout. From now on each wait reads the socket's timeouts. [any
 * thread] */
void mf_note_socket_timeout(void);

/* Records that a socket of this process has an SO_RCVLOWAT. [any thread] */
void mf_note_receive_mark(void);

/* The number of bytes for which a blocking receive waits: SO_RCVLOWAT of a stream, else 1. Keeps errno. */
size_t mf_receive_mark(int descriptor);

/* The deadline of a call that begins now, by SO_RCVTIMEO or SO_SNDTIMEO; MR_NO_DEADLINE if the option is not set. */
uint64_t mf_socket_deadline_ns(int descriptor, mr_kind direction);

/*
 * Call this after a call that did not wait. After a number of such calls the fiber yields. Otherwise it would starve
 * its carrier's other fibers, for example while it polls for something that one of them must provide. Keeps errno.
 */
void mf_consume_budget(void);

/* Returns the result of a call. After success restores errno, which failed attempts may have changed. */
static inline ssize_t mf_settle(ssize_t result, int errno_before)
{
    if (result >= 0)
        errno = errno_before;
    return result;
}

/* Turns a negative errno into -1 and errno. */
static inline int mf_fail(int error)
{
    errno = -error;
    return -1;
}

#endif
