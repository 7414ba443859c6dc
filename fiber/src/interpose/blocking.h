/*
 * blocking.h: what "this call would block" means for a descriptor, and waiting as a blocking call does.
 *
 * A interposed call tries without blocking, on the descriptor as it is: no flag that others see is changed. Only when the
 * try said EAGAIN does it ask whether the descriptor is a blocking one, and for how long it may wait.
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
    bool was_idle;       /* the last wait ended at once, and no progress was made since */
    bool is_unannounced; /* it waits for more than the kernel announces: SO_RCVLOWAT, say */
    bool is_local_send;  /* on a Unix socket, and it has waited: see mf_send_once */
    unsigned backoff_ms;
    uint64_t look_ns;     /* how long a local send waits at most before it looks again */
    uint64_t deadline_ns; /* of the socket's SO_RCVTIMEO or SO_SNDTIMEO */
} mf_patient_call;

/*
 * After a try that would have blocked: waits until it is worth another. False: the call is over, and errno says why
 * (EAGAIN of a descriptor in non-blocking mode or of a timeout, EBADF of one that was closed, EINTR).
 */
bool mf_wait_to_retry(mf_patient_call *call);

/* Was the last wait for input in vain because the socket is shut down for receiving? A try that may wait ends at once then, and
 * says what others never say of datagrams: the end. errno may change. */
bool mf_nothing_comes(const mf_patient_call *call);

/* Before the first try: a wait for what will most likely be missing, if the descriptor is a blocking one. False: as above. */
bool mf_wait_to_try(mf_patient_call *call);

/* A try went well, and more may follow. */
static inline void mf_note_progress(mf_patient_call *call)
{
    call->was_idle = false;
    call->backoff_ms = 0;
}

/* Waits for a condition that nothing announces: 1 ms, doubling up to 20. False: the deadline has passed (errno is
 * EAGAIN), or an interruption. */
bool mf_back_off(unsigned *backoff_ms, uint64_t deadline_ns);

/* Is O_NONBLOCK set? A bad descriptor is not blocking either. */
bool mf_is_nonblocking(int descriptor);

/* A socket of this process got a timeout: from now on each has to be asked. [any thread] */
void mf_note_socket_timeout(void);

/* A socket of this process got a SO_RCVLOWAT. [any thread] */
void mf_note_receive_mark(void);

/* What a blocking receive on this descriptor waits for: SO_RCVLOWAT of a stream, else 1. errno stays as it is. */
size_t mf_receive_mark(int descriptor);

/* The deadline that SO_RCVTIMEO or SO_SNDTIMEO set for a call that begins now; MR_NO_DEADLINE without. */
uint64_t mf_socket_deadline_ns(int descriptor, mr_kind direction);

/*
 * A call that did not wait. A fiber whose calls never do yields now and then, so that its carrier's other fibers are not
 * starved: neither while it goes on for long, nor while it tries for what one of them is to give it. errno stays as it
 * is.
 */
void mf_spend_turn(void);

/* The result of a call that may have tried in vain, or gone on in vain: success leaves errno as it was before. */
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
