/* blocking.c: waits as a blocking call on a descriptor does. */
#include "blocking.h"
#include "../watch.h"
#include "libc.h"
#include "socket.h"
#include "timespec.h"

enum { BACKOFF_LAST_MS = 20, CALL_BUDGET = 128 };

#define NS_PER_MS        UINT64_C(1000000)
#define IDLE_WAIT_NS     UINT64_C(50000)
#define FIRST_RECHECK_NS (16 * NS_PER_MS)
#define LAST_RECHECK_NS  (256 * NS_PER_MS)

/* Most programs set neither. This saves them a system call for each wait. */
static atomic_bool has_socket_timeouts, has_receive_marks;

void mf_note_socket_timeout(void)
{
    atomic_store(&has_socket_timeouts, true);
}

void mf_note_receive_mark(void)
{
    atomic_store(&has_receive_marks, true);
}

size_t mf_receive_mark(int descriptor)
{
    int mark = 1, error = errno;
    socklen_t size = sizeof mark;
    if (!atomic_load_explicit(&has_receive_marks, memory_order_relaxed))
        return 1;
    if (mf_is_stream(descriptor))
        getsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &mark, &size);
    errno = error;
    return mark > 1 ? (size_t)mark : 1;
}

bool mf_is_nonblocking(int descriptor)
{
    int flags = LIBC(fcntl)(descriptor, F_GETFL);
    return flags < 0 || (flags & O_NONBLOCK);
}

uint64_t mf_socket_deadline_ns(int descriptor, mr_kind direction)
{
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    if (!atomic_load_explicit(&has_socket_timeouts, memory_order_relaxed))
        return MR_NO_DEADLINE;
    int option = direction == MR_WAIT_READABLE ? SO_RCVTIMEO : SO_SNDTIMEO;
    if (getsockopt(descriptor, SOL_SOCKET, option, &limit, &size) != 0 || (!limit.tv_sec && !limit.tv_usec))
        return MR_NO_DEADLINE;
    return mf_deadline_after(&(struct timespec){.tv_sec = limit.tv_sec, .tv_nsec = limit.tv_usec * 1000});
}

bool mf_back_off(unsigned *backoff_ms, uint64_t deadline_ns)
{
    uint64_t now_ns = mr_clock_now_ns();
    if (deadline_ns != MR_NO_DEADLINE && now_ns >= deadline_ns) {
        errno = EAGAIN;
        return false;
    }
    *backoff_ms = *backoff_ms ? *backoff_ms * 2 : 1;
    if (*backoff_ms > BACKOFF_LAST_MS)
        *backoff_ms = BACKOFF_LAST_MS;
    uint64_t until_ns = now_ns + *backoff_ms * NS_PER_MS;
    if (deadline_ns != MR_NO_DEADLINE && deadline_ns < until_ns)
        until_ns = deadline_ns;
    int error = mr_fiber_sleep_until(until_ns);
    if (error)
        mf_fail(error);
    return !error;
}

static bool may_wait(mf_blocking_call *call)
{
    int flags = LIBC(fcntl)(call->descriptor, F_GETFL);
    if (flags < 0) /* closed since the attempt */
        return false;
    if (flags & O_NONBLOCK) {
        mf_consume_budget();
        errno = EAGAIN;
        return false;
    }
    call->deadline_ns = mf_socket_deadline_ns(call->descriptor, call->direction);
    call->has_waited = true;
    call->is_local_send = call->direction == MR_WAIT_WRITABLE && mf_is_unix(call->descriptor);
    call->recheck_ns = FIRST_RECHECK_NS;
    return true;
}

static bool end_wait(int error)
{
    if (error)
        mf_fail(error == MF_DEADLINE_PASSED ? -EAGAIN : error);
    return !error;
}

/* When a Unix socket is shut down for sending, or its peer for receiving, the kernel wakes threads that wait in a send.
 * It does not wake threads that poll for writability (unix_poll in net/unix/af_unix.c). So such a wait checks again
 * after a while. */
static int wait_until_recheck(mf_blocking_call *call)
{
    uint64_t recheck_ns = mr_clock_now_ns() + call->recheck_ns;
    int error = mf_watch_wait(call->descriptor, call->direction, mf_earlier(call->deadline_ns, recheck_ns));
    if (call->recheck_ns < LAST_RECHECK_NS)
        call->recheck_ns *= 2;
    return error == MF_DEADLINE_PASSED && !mf_has_passed(call->deadline_ns) ? 0 : error;
}

static int wait_for_descriptor(mf_blocking_call *call)
{
    return call->is_local_send ? wait_until_recheck(call)
                               : mf_watch_wait(call->descriptor, call->direction, call->deadline_ns);
}

/* A Unix datagram socket stays writable while its peer's queue is full, and no event tells when the queue has space
 * again. So the call tries again after a pause. */
bool mf_wait_to_retry(mf_blocking_call *call)
{
    if (!call->has_waited && !may_wait(call))
        return false;
    if (call->was_idle || call->is_unannounced) {
        call->was_idle = false;
        return mf_back_off(&call->backoff_ms, call->deadline_ns);
    }
    uint64_t begin_ns = mr_clock_now_ns();
    int error = wait_for_descriptor(call);
    call->was_idle = mr_clock_now_ns() - begin_ns < IDLE_WAIT_NS;
    return end_wait(error);
}

bool mf_is_shut_for_receiving(const mf_blocking_call *call)
{
    struct pollfd entry = {.fd = call->descriptor, .events = POLLRDHUP};
    return call->was_idle && call->direction == MR_WAIT_READABLE && LIBC(poll)(&entry, 1, 0) > 0 &&
           (entry.revents & POLLRDHUP);
}

bool mf_wait_to_try(mf_blocking_call *call)
{
    if (call->is_unannounced || !may_wait(call))
        return true;
    int error = mf_watch_wait(call->descriptor, call->direction, call->deadline_ns);
    /* EPERM: epoll does not take the descriptor, for example a file. Such a descriptor is always ready. */
    return error == -EPERM || end_wait(error);
}

/* A child between vfork and exec has no other fibers. */
void mf_consume_budget(void)
{
    if (++mf_current->calls >= CALL_BUDGET && mf_watch_is_own_process())
        mr_fiber_yield();
}
