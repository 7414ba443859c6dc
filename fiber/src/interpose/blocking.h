/*
 * blocking.h: what "this call would block" means for a descriptor, and how to wait as a blocking call does.
 *
 * An interposed call tries without blocking, on the descriptor as it is. It changes no flag that others could see.
 * Only after EAGAIN does it ask whether the descriptor is in blocking mode, and for how long it may wait.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_BLOCKING_H
#define MILLRACE_FIBER_INTERPOSE_BLOCKING_H

#include "../carrier.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How one call waits, from its first EAGAIN to its end. */
typedef struct mf_patient_call {
    int descriptor;
    mr_kind direction; /* MR_WAIT_READABLE or MR_WAIT_WRITABLE */
    bool has_waited;
    bool was_idle;       /* the last wait ended at once, and no progress has been made since */
    bool is_unannounced; /* it waits for more than the kernel announces, for example SO_RCVLOWAT */
    bool is_local_send;  /* on a Unix socket, and it has waited: see mf_send_once */
    unsigned backoff_ms;
    uint64_t look_ns;     /* how long a send to a local socket waits at most before it looks again */
    uint64_t deadline_ns; /* of the socket's SO_RCVTIMEO or SO_SNDTIMEO */
} mf_patient_call;

/*
 * After an attempt that would have blocked: waits until another attempt makes sense. Returns false when the call is
 * over; errno then says why (EAGAIN: the descriptor is in non-blocking mode, or a timeout has passed; EBADF: it was
 * closed; EINTR).
 */
bool mf_wait_to_retry(mf_patient_call *call);

/* Did the last wait for input end because the socket is shut down for receiving? An attempt that may wait then ends
 * at once, and reports an end, which datagram sockets otherwise never do. errno may change. */
bool mf_nothing_comes(const mf_patient_call *call);

/* Before the first attempt: waits if there is most likely nothing to receive and the descriptor is in blocking mode.
 * Returns false as above. */
bool mf_wait_to_try(mf_patient_call *call);

/* A try went well, and more may follow. */
static inline void mf_note_progress(mf_patient_call *call)
{
    call->was_idle = false;
    call->backoff_ms = 0;
}

/* Waits for a condition that nothing announces: 1 ms, doubling up to 20 ms. Returns false when the deadline has
 * passed (errno is EAGAIN), or after an interruption. */
bool mf_back_off(unsigned *backoff_ms, uint64_t deadline_ns);

/* Is O_NONBLOCK set? A bad descriptor is not blocking either. */
bool mf_is_nonblocking(int descriptor);

/* A socket of this process got a timeout. From now on every socket must be asked. [any thread] */
void mf_note_socket_timeout(void);

/* A socket of this process got a SO_RCVLOWAT. [any thread] */
void mf_note_receive_mark(void);

/* What a blocking receive on this descriptor waits for: SO_RCVLOWAT of a stream, else 1. errno stays as it is. */
size_t mf_receive_mark(int descriptor);

/* The deadline that SO_RCVTIMEO or SO_SNDTIMEO set for a call that begins now; MR_NO_DEADLINE without. */
uint64_t mf_socket_deadline_ns(int descriptor, mr_kind direction);

/*
 * Call this after a call that did not wait. A fiber whose calls never wait yields from time to time. Otherwise it
 * would starve its carrier's other fibers, for example while it tries again and again for something that one of them
 * must provide. errno stays as it is.
 */
void mf_spend_turn(void);

/* The result of a call that may have tried in vain meanwhile: after success, errno is what it was before. */
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
