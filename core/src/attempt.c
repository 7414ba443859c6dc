/*
 * attempt.c: tries an operation once, without blocking and without SIGPIPE.
 *
 * No other file of the core makes the socket calls of POSIX. Must not know: backends.
 */
#include "attempt.h"
#include "cache.h"
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sendfile.h>
#include <sys/syscall.h>
#endif

#ifdef POLLRDHUP
#define PEER_HAS_ENDED POLLRDHUP
#else
#define PEER_HAS_ENDED 0 /* without POLLRDHUP, POLLIN reports the end of the peer's data */
#endif

static int64_t result_or_error(int64_t result)
{
    if (result >= 0)
        return result;
    return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* Returns 0 on any event: the caller's next system call returns the error or the end of the stream. */
static int64_t poll_once(int number, short events)
{
    struct pollfd entry = {.fd = number, .events = events};
    int ready = poll(&entry, 1, 0);
    if (ready < 0)
        return -errno;
    if (entry.revents & POLLNVAL)
        return -EBADF;
    return ready > 0 ? 0 : -EAGAIN;
}

/*
 * On Linux recv and send call the kernel directly. libc's are cancellation points, which costs two atomic operations in
 * a program with more than one thread.
 */
#ifdef __linux__
#define recv(...) syscall(SYS_recvfrom, __VA_ARGS__, NULL, NULL)
#define send(...) syscall(SYS_sendto, __VA_ARGS__, NULL, 0)
#endif

/* Descriptors that the core creates are non-blocking and close-on-exec. */
static int accept_nonblocking(int listener, struct sockaddr *address, socklen_t *length)
{
#ifdef __APPLE__ /* has no accept4 */
    int number = accept(listener, address, length);
    if (number >= 0) {
        fcntl(number, F_SETFD, FD_CLOEXEC);
        fcntl(number, F_SETFL, O_NONBLOCK);
    }
    return number;
#else
    return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
#endif
}

static int64_t attempt_accept(mr_slot *slot)
{
    mr_address *address = slot->request.buffer;
    if (!address)
        return result_or_error(accept_nonblocking(mr_slot_number(slot), NULL, NULL));
    address->length = sizeof address->storage;
    return result_or_error(
        accept_nonblocking(mr_slot_number(slot), (struct sockaddr *)&address->storage, &address->length));
}

static int64_t begin_connect(mr_slot *slot)
{
    if (connect(mr_slot_number(slot), slot->request.buffer, (socklen_t)slot->request.length) == 0)
        return 0;
    switch (errno) {
    case EINPROGRESS:
    case EINTR: /* POSIX: the kernel continues to connect, as after EINPROGRESS. */
        slot->has_begun = true;
        return -EAGAIN;
    case EAGAIN:
        return -MR_QUEUE_FULL;
    default:
        return -errno;
    }
}

static int64_t finish_connect(mr_slot *slot)
{
    int64_t ready = poll_once(mr_slot_number(slot), POLLOUT);
    if (ready < 0)
        return ready;
#ifndef __linux__ /* on a BSD, a second connect would begin to connect again */
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(mr_slot_number(slot), SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
#else
    /* A second connect returns the outcome. SO_ERROR has it, too, but reading SO_ERROR leaves a Linux socket in its
     * connecting state. */
    if (connect(mr_slot_number(slot), slot->request.buffer, (socklen_t)slot->request.length) == 0)
        return 0;
    switch (errno) {
    case EISCONN:
        return 0;
    case EALREADY:
        return -EAGAIN;
    case EINPROGRESS: /* a shutdown has ended the first attempt, and this call has begun another one */
        return -ECONNABORTED;
    default:
        return -errno;
    }
#endif
}

#ifdef MSG_NOSIGNAL
static bool forbid_signal(int number)
{
    (void)number;
    return true;
}
#else /* macOS has a socket option instead. It returns EINVAL for a socket that is shut down in both directions. */
#define MSG_NOSIGNAL 0
static bool forbid_signal(int number)
{
    return setsockopt(number, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int)) == 0 || errno != EINVAL;
}
#endif

#ifndef MSG_MORE
#define MSG_MORE 0
#endif

static int64_t attempt_send(int number, const void *bytes, size_t length, bool more)
{
    if (!forbid_signal(number))
        return -EPIPE;
    return result_or_error(send(number, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0)));
}

static int64_t attempt_vector(mr_slot *slot)
{
    struct msghdr message = {.msg_iov = slot->request.buffer, .msg_iovlen = slot->request.length};
    if (slot->request.kind == MR_RECV_VECTOR)
        return result_or_error(recvmsg(mr_slot_number(slot), &message, MSG_DONTWAIT));
    if (!forbid_signal(mr_slot_number(slot)))
        return -EPIPE;
    return result_or_error(sendmsg(mr_slot_number(slot), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

#ifdef __linux__
/* The kernel sends a file in pieces (splice_direct_to_actor). If a later piece fails with EPIPE, SIGPIPE is raised, but
 * the result is the length of the pieces before it. So a short result may mean SIGPIPE, too. */
static bool may_have_raised_signal(int64_t result, size_t length)
{
    return result == -EPIPE || (result > 0 && (size_t)result < length);
}

/* sendfile has no MSG_NOSIGNAL. So SIGPIPE is blocked during the call, and a pending one is removed afterwards. */
static int64_t send_from_file(int number, int file, off_t offset, size_t length)
{
    sigset_t broken_pipe, before;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
    int64_t result = result_or_error(sendfile(number, file, &offset, length));
    if (may_have_raised_signal(result, length) && !sigismember(&before, SIGPIPE))
        sigtimedwait(&broken_pipe, NULL, &(struct timespec){0}); /* EAGAIN: no SIGPIPE was pending */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
#else
/* The BSDs' sendfile functions differ in their arguments. Reading and sending works on all of them. */
static int64_t send_from_file(int number, int file, off_t offset, size_t length)
{
    char bytes[1 << 16];
    ssize_t size = pread(file, bytes, length < sizeof bytes ? length : sizeof bytes, offset);
    return size > 0 ? attempt_send(number, bytes, (size_t)size, false) : result_or_error(size);
}
#endif

static bool would_wait_for_disk(mr_loop *loop, const mr_request *request)
{
    unsigned calls = 0;
    mr_cache_state state = mr_cache_probe(request->file, request->offset, mr_file_bytes(request), &calls);
    mr_count(&loop->counters.system_calls, calls);
    return state == MR_NOT_IN_CACHE;
}

static int64_t attempt_send_file(mr_loop *loop, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    if ((request->flags & MR_CACHED) && would_wait_for_disk(loop, request))
        return -MR_NOT_CACHED;
    return send_from_file(mr_slot_number(slot), request->file, (off_t)request->offset, mr_file_bytes(request));
}

int64_t mr_attempt(mr_loop *loop, mr_slot *slot)
{
    const mr_request *request = &slot->request;
    int number = mr_slot_number(slot);

    switch (request->kind) {
    case MR_ACCEPT:
        return attempt_accept(slot);
    case MR_CONNECT:
        return slot->has_begun ? finish_connect(slot) : begin_connect(slot);
    case MR_RECV:
        return result_or_error(recv(number, request->buffer, request->length, MSG_DONTWAIT));
    case MR_SEND:
        return attempt_send(number, request->buffer, request->length, request->flags & MR_MORE);
    case MR_RECV_VECTOR:
    case MR_SEND_VECTOR:
        return attempt_vector(slot);
    case MR_SEND_FILE:
        return attempt_send_file(loop, slot);
    case MR_READ_FILE:
        return result_or_error(pread(number, request->buffer, mr_file_bytes(request), (off_t)request->offset));
    case MR_WRITE_FILE:
        return result_or_error(pwrite(number, request->buffer, mr_file_bytes(request), (off_t)request->offset));
    case MR_SYNC_FILE:
        return result_or_error(fsync(number));
    case MR_WAIT_READABLE:
        return poll_once(number, POLLIN | PEER_HAS_ENDED);
    case MR_WAIT_WRITABLE:
        return poll_once(number, POLLOUT);
    case MR_SHUTDOWN:
        return result_or_error(shutdown(number, (int)request->length));
    case MR_SEND_THEN_RECEIVE: /* mr_send_then_receive_attempt calls this function for the send alone, as MR_SEND */
    case MR_CLOSE:
    case MR_TIMEOUT:
    case MR_KIND_COUNT:
        break;
    }
    return -EINVAL;
}

int mr_descriptor_close(mr_loop *loop, int number)
{
    (void)loop;
    /* Linux frees the number even when close is interrupted. Another thread may already have a new descriptor with this
     * number, and trying again would close it. */
    return close(number) == 0 || errno == EINTR ? 0 : -errno;
}
