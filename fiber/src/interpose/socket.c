/*
 * socket.c: receiving, sending, accepting, connecting.
 *
 * The attempts use MSG_DONTWAIT, so no flag of the socket changes. accept and connect have no such flag. accept first
 * calls poll, under a lock. connect switches the socket to non-blocking mode while it begins.
 */
#include "socket.h"
#include "last_receive.h"
#include "fork.h"
#include "libc.h"
#include "timespec.h"

#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>

MF_ALWAYS_LINKED(socket);

bool mf_is_stream(int descriptor)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

bool mf_is_unix(int descriptor)
{
    int domain = -1, error = errno;
    socklen_t size = sizeof domain;
    bool is_unix = getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
    errno = error;
    return is_unix;
}

/* A receive never waits for urgent data of a stream (tcp_recv_urg in net/ipv4/tcp.c, unix_stream_recv_urg), or for
 * the error queue. Sockets without an error queue (Unix) ignore its flag. */
static bool receive_is_libcs(int descriptor, int flags)
{
    if (!mf_current)
        return true;
    mf_consume_budget();
    if (flags & MSG_DONTWAIT)
        return true;
    if ((flags & MSG_OOB) && mf_is_stream(descriptor))
        return true;
    if (!(flags & MSG_ERRQUEUE))
        return false;
    return !mf_is_unix(descriptor);
}

/* Records options that waits must respect. An option that another process set before it passed the socket on is not
 * noticed. */
int setsockopt(int descriptor, int level, int option, const void *value, socklen_t size)
{
    bool is_timeout =
        option == SO_RCVTIMEO || option == SO_SNDTIMEO || option == SO_RCVTIMEO_NEW || option == SO_SNDTIMEO_NEW;
    if (level == SOL_SOCKET && is_timeout)
        mf_note_socket_timeout();
    if (level == SOL_SOCKET && option == SO_RCVLOWAT)
        mf_note_receive_mark();
    return LIBC(setsockopt)(descriptor, level, option, value, size);
}

/* --------------------------------------------------------------------------------------------------- messages --- */

static size_t total_bytes(const struct msghdr *message)
{
    size_t total = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        total += message->msg_iov[i].iov_len;
    return total;
}

/* True if a message has more parts than the kernel accepts. The kernel does not read them, so this library must not
 * either. */
static bool has_too_many_parts(const struct msghdr *message)
{
    return message->msg_iovlen > IOV_MAX;
}

/* The rest of a message of which a part has been transferred, with its own vector. */
typedef struct remainder {
    struct msghdr message;
    struct iovec *vector;
} remainder;

static bool make_remainder(remainder *rest, const struct msghdr *message)
{
    size_t count = message->msg_iovlen;
    rest->message = *message;
    rest->vector = malloc((count ? count : 1) * sizeof *rest->vector);
    if (!rest->vector)
        return false;
    memcpy(rest->vector, message->msg_iov, count * sizeof *rest->vector);
    rest->message.msg_iov = rest->vector;
    return true;
}

static void advance(struct msghdr *message, size_t transferred)
{
    while (message->msg_iovlen && transferred >= message->msg_iov->iov_len) {
        transferred -= message->msg_iov->iov_len;
        message->msg_iov++;
        message->msg_iovlen--;
    }
    if (message->msg_iovlen) {
        message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + transferred;
        message->msg_iov->iov_len -= transferred;
    }
}

/* --------------------------------------------------------------------------------------------------- receiving --- */

/* True if there is most likely nothing to receive yet. */
static bool must_wait_first(int descriptor, size_t wanted)
{
    return wanted && mf_seems_empty(descriptor);
}

static int without_waiting(const mf_blocking_call *call)
{
    return mf_is_shut_for_receiving(call) ? 0 : MSG_DONTWAIT;
}

/* One receive that waits for its first byte. */
static ssize_t receive_some(mf_blocking_call *call, struct msghdr *message, int flags)
{
    ssize_t received;
    do
        received = LIBC(recvmsg)(call->descriptor, message, flags | without_waiting(call));
    while (received < 0 && errno == EAGAIN && mf_wait_to_retry(call));
    mf_note_progress(call);
    return received;
}

/* The kernel ends a receive after the part that carried descriptors, even if they did not fit into the control
 * buffer. */
static bool has_descriptors(struct msghdr *message)
{
    if (message->msg_flags & MSG_CTRUNC)
        return true;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS)
            return true;
    return false;
}

bool mf_is_at_end(int descriptor)
{
    struct pollfd entry = {.fd = descriptor};
    int error = errno, left = 0;
    bool has_only = LIBC(poll)(&entry, 1, 0) > 0 && (ioctl(descriptor, FIONREAD, &left) != 0 || left == 0);
    errno = error;
    return has_only;
}

/* Receives more after a first part. Leaves an error or the end to the next call; the result is then 0 or less. */
static ssize_t receive_more(mf_blocking_call *call, struct msghdr *message, int flags)
{
    ssize_t received;
    do {
        if (mf_is_at_end(call->descriptor))
            return 0;
        received = LIBC(recvmsg)(call->descriptor, message, flags | MSG_DONTWAIT);
    } while (received < 0 && errno == EAGAIN && mf_wait_to_retry(call));
    mf_note_progress(call);
    return received;
}

/* The number of bytes for which a receive waits: all of them with MSG_WAITALL. With MSG_PEEK on a Unix socket it waits
 * for the first byte only (unix_stream_read_generic in net/unix/af_unix.c). */
static size_t least_bytes(int descriptor, size_t wanted, int flags)
{
    if ((flags & MSG_PEEK) && mf_is_unix(descriptor))
        return wanted < 1 ? wanted : 1;
    size_t mark = flags & MSG_WAITALL ? wanted : mf_receive_mark(descriptor);
    return mark < wanted ? mark : wanted;
}

/* Continues after a short first part, until enough bytes, the end or an error have come. Returns the number of bytes.
 * Each part may bring control messages. */
static ssize_t receive_rest(mf_blocking_call *call, struct msghdr *message, int flags, size_t received,
                            size_t control_bytes)
{
    remainder rest;
    size_t least = least_bytes(call->descriptor, total_bytes(message), flags);
    if (!make_remainder(&rest, message))
        return (ssize_t)received;
    advance(&rest.message, received);
    while (received < least && !has_descriptors(&rest.message)) {
        rest.message.msg_controllen = control_bytes;
        ssize_t more = receive_more(call, &rest.message, flags);
        if (more < 0)
            mf_wait_put_interruption_back(errno);
        if (more <= 0)
            break;
        received += (size_t)more;
        advance(&rest.message, (size_t)more);
        message->msg_controllen = rest.message.msg_controllen;
        message->msg_flags = rest.message.msg_flags;
    }
    free(rest.vector);
    return (ssize_t)received;
}

/* Waits for more bytes with MSG_PEEK. The bytes stay in the socket, so poll always reports it as readable. Only another
 * attempt after a pause shows whether more have come. */
static ssize_t peek_all(mf_blocking_call *call, struct msghdr *message, int flags, ssize_t seen, size_t control_bytes)
{
    unsigned backoff_ms = 0;
    ssize_t before;
    if (!call->has_waited)
        call->deadline_ns = mf_socket_deadline_ns(call->descriptor, MR_WAIT_READABLE);
    do {
        if (!mf_back_off(&backoff_ms, call->deadline_ns)) {
            mf_wait_put_interruption_back(errno);
            return seen;
        }
        before = seen;
        message->msg_controllen = control_bytes;
        seen = receive_some(call, message, flags);
    } while (seen >= before && (size_t)seen < least_bytes(call->descriptor, total_bytes(message), flags));
    return seen;
}

static ssize_t receive_message(int descriptor, struct msghdr *message, int flags)
{
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_READABLE};
    size_t wanted = total_bytes(message), control_bytes = message->msg_controllen;
    int before = errno;
    call.is_unannounced = mf_receive_mark(descriptor) > 1;
    if (must_wait_first(descriptor, wanted) && !mf_wait_to_try(&call))
        return -1;
    ssize_t received = receive_some(&call, message, flags);
    mf_note_received(descriptor, wanted, received);
    if (received < 0)
        return received;
    bool is_short = received > 0 && (size_t)received < least_bytes(descriptor, wanted, flags);
    if (is_short && !mf_is_nonblocking(descriptor) && mf_is_stream(descriptor))
        received = flags & MSG_PEEK ? peek_all(&call, message, flags, received, control_bytes)
                                    : receive_rest(&call, message, flags, (size_t)received, control_bytes);
    return mf_settle(received, before);
}

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    if (receive_is_libcs(descriptor, flags) || has_too_many_parts(message))
        return LIBC(recvmsg)(descriptor, message, flags);
    return receive_message(descriptor, message, flags);
}

ssize_t recvfrom(int descriptor, void *buffer, size_t size, int flags, struct sockaddr *address,
                 socklen_t *address_size)
{
    if (receive_is_libcs(descriptor, flags))
        return LIBC(recvfrom)(descriptor, buffer, size, flags, address, address_size);
    struct iovec vector = {buffer, size};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (address && address_size) {
        message.msg_name = address;
        message.msg_namelen = *address_size;
    }
    ssize_t received = receive_message(descriptor, &message, flags);
    if (received >= 0 && address && address_size)
        *address_size = message.msg_namelen;
    return received;
}

/* Separate from recvfrom, because a plain recv suffices without an address. */
ssize_t recv(int descriptor, void *buffer, size_t size, int flags)
{
    if (receive_is_libcs(descriptor, flags))
        return LIBC(recv)(descriptor, buffer, size, flags);
    if ((flags & MSG_WAITALL) || mf_receive_mark(descriptor) > 1)
        return recvfrom(descriptor, buffer, size, flags, NULL, NULL);
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_READABLE};
    ssize_t received;
    int before = errno;
    if (must_wait_first(descriptor, size) && !mf_wait_to_try(&call))
        return -1;
    do
        received = LIBC(recv)(descriptor, buffer, size, flags | without_waiting(&call));
    while (received < 0 && errno == EAGAIN && mf_wait_to_retry(&call));
    mf_note_received(descriptor, size, received);
    return mf_settle(received, before);
}

ssize_t __recv_chk(int descriptor, void *buffer, size_t size, size_t buffer_size, int flags)
{
    if (!mf_current || size > buffer_size)
        return LIBC(__recv_chk)(descriptor, buffer, size, buffer_size, flags);
    return recv(descriptor, buffer, size, flags);
}

ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t size, size_t buffer_size, int flags,
                       struct sockaddr *address, socklen_t *address_size)
{
    if (!mf_current || size > buffer_size)
        return LIBC(__recvfrom_chk)(descriptor, buffer, size, buffer_size, flags, address, address_size);
    return recvfrom(descriptor, buffer, size, flags, address, address_size);
}

/* Stores the remaining time in the timeout, as the kernel does. */
static void note_time_left(struct timespec *timeout, uint64_t deadline_ns)
{
    if (timeout && deadline_ns != MR_NO_DEADLINE)
        *timeout = mf_timespec_of(mf_left_ns(deadline_ns));
}

/* After a message, waits for the next one. Returns false at the end, or at an error. The error is left to the next
 * call, because receiving would remove it from the socket. */
static bool wait_for_another(int descriptor)
{
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_READABLE};
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    while (LIBC(poll)(&entry, 1, 0) == 0)
        if (!mf_wait_to_retry(&call)) {
            mf_wait_put_interruption_back(errno);
            return false;
        }
    return !(entry.revents & POLLERR);
}

/* As in the kernel, the timeout is checked only between messages (recvmmsg(2), BUGS). */
int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    if (receive_is_libcs(descriptor, flags) || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(recvmmsg)(descriptor, messages, count, flags, timeout);
    uint64_t deadline_ns = mf_deadline_after(timeout);
    int one_at_a_time = flags & ~MSG_WAITFORONE;
    unsigned done = 0;
    int before = errno;
    while (done < count) {
        if (done && !(one_at_a_time & MSG_DONTWAIT) && !wait_for_another(descriptor))
            break;
        ssize_t received = recvmsg(descriptor, &messages[done].msg_hdr, one_at_a_time);
        if (received < 0)
            break;
        messages[done++].msg_len = (unsigned)received;
        if (flags & MSG_WAITFORONE)
            one_at_a_time |= MSG_DONTWAIT;
        if (deadline_ns != MR_NO_DEADLINE && mr_clock_now_ns() >= deadline_ns)
            break;
    }
    if (done)
        note_time_left(timeout, deadline_ns);
    return done || !count ? (int)mf_settle(done, before) : -1;
}

/* ----------------------------------------------------------------------------------------------------- sending --- */

/* Reads and clears the socket's error; 0 if there is none. */
static int take_error(int descriptor)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

ssize_t mf_send_once(const mf_blocking_call *call, const struct msghdr *message, int flags)
{
    int silently = call->is_local_send ? MSG_NOSIGNAL : 0;
    ssize_t sent = LIBC(sendmsg)(call->descriptor, message, flags | MSG_DONTWAIT | silently);
    if (sent < 0 && errno == EPIPE && call->is_local_send) {
        int error = take_error(call->descriptor);
        errno = error ? error : EPIPE;
    }
    return sent;
}

static ssize_t send_some(mf_blocking_call *call, const struct msghdr *message, int flags)
{
    ssize_t sent;
    do
        sent = mf_send_once(call, message, flags);
    while (sent < 0 && errno == EAGAIN && mf_wait_to_retry(call));
    mf_note_progress(call);
    return sent;
}

/* True if the socket has an error. After a part was sent, the next call must report it; another send now would remove
 * it from the socket. */
static bool is_broken(int descriptor)
{
    struct pollfd entry = {.fd = descriptor};
    return LIBC(poll)(&entry, 1, 0) > 0;
}

ssize_t mf_send_rest(mf_blocking_call *call, const struct msghdr *message, int flags, size_t sent)
{
    remainder rest;
    size_t wanted = total_bytes(message);
    if (!make_remainder(&rest, message))
        return (ssize_t)sent;
    rest.message.msg_control = NULL; /* descriptors and credentials are sent once, with the first byte */
    rest.message.msg_controllen = 0;
    advance(&rest.message, sent);
    while (sent < wanted && !is_broken(call->descriptor)) {
        ssize_t more = send_some(call, &rest.message, flags | MSG_NOSIGNAL);
        if (more < 0) {
            mf_wait_put_interruption_back(errno);
            break;
        }
        sent += (size_t)more;
        advance(&rest.message, (size_t)more);
    }
    free(rest.vector);
    return (ssize_t)sent;
}

/* Sends with MSG_FASTOPEN to a peer without a cookie: the data follows when the connection is established. */
static ssize_t send_when_connected(mf_blocking_call *call, const struct msghdr *message, int flags)
{
    struct msghdr plain = *message;
    plain.msg_name = NULL;
    plain.msg_namelen = 0;
    if (mf_wait_to_retry(call))
        return send_some(call, &plain, flags & ~MSG_FASTOPEN);
    if (errno == EAGAIN)
        errno = EINPROGRESS;
    return -1;
}

static ssize_t send_message(int descriptor, const struct msghdr *message, int flags)
{
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_WRITABLE};
    int before = errno;
    ssize_t sent = send_some(&call, message, flags);
    if (sent < 0 && errno == EINPROGRESS && (flags & MSG_FASTOPEN))
        sent = send_when_connected(&call, message, flags);
    if (sent < 0)
        return sent;
    if (!call.has_waited)
        mf_consume_budget();
    if ((size_t)sent < total_bytes(message))
        sent = mf_send_rest(&call, message, flags, (size_t)sent);
    return mf_settle(sent, before);
}

static bool send_is_libcs(int flags)
{
    if (!mf_current)
        return true;
    if (flags & MSG_DONTWAIT)
        mf_consume_budget();
    return flags & MSG_DONTWAIT;
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    if (send_is_libcs(flags) || has_too_many_parts(message))
        return LIBC(sendmsg)(descriptor, message, flags);
    return send_message(descriptor, message, flags);
}

ssize_t sendto(int descriptor, const void *buffer, size_t size, int flags, const struct sockaddr *address,
               socklen_t address_size)
{
    if (send_is_libcs(flags))
        return LIBC(sendto)(descriptor, buffer, size, flags, address, address_size);
    struct iovec vector = {(void *)buffer, size};
    struct msghdr message = {
        .msg_name = (void *)address, .msg_namelen = address ? address_size : 0, .msg_iov = &vector, .msg_iovlen = 1};
    return send_message(descriptor, &message, flags);
}

/* In most cases the socket takes everything at once. Then this is one plain send. */
ssize_t send(int descriptor, const void *buffer, size_t size, int flags)
{
    if (send_is_libcs(flags))
        return LIBC(send)(descriptor, buffer, size, flags);
    int before = errno;
    ssize_t sent = LIBC(send)(descriptor, buffer, size, flags | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN)
        return mf_settle(sendto(descriptor, buffer, size, flags, NULL, 0), before);
    mf_consume_budget();
    if (sent < 0 || (size_t)sent == size)
        return sent;
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_WRITABLE};
    struct iovec vector = {(void *)buffer, size};
    sent = mf_send_rest(&call, &(struct msghdr){.msg_iov = &vector, .msg_iovlen = 1}, flags, (size_t)sent);
    return mf_settle(sent, before);
}

ALIAS(__send, send);

int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    if (send_is_libcs(flags))
        return LIBC(sendmmsg)(descriptor, messages, count, flags);
    unsigned done = 0;
    int before = errno;
    if (count > IOV_MAX) /* as the kernel does (sendmmsg(2)) */
        count = IOV_MAX;
    while (done < count) {
        ssize_t sent = sendmsg(descriptor, &messages[done].msg_hdr, flags);
        if (sent < 0 && done)
            mf_wait_put_interruption_back(errno);
        if (sent < 0)
            return done ? (int)mf_settle(done, before) : -1;
        messages[done++].msg_len = (unsigned)sent;
    }
    return (int)done;
}

/* --------------------------------------------------------------------------------------------------- accepting --- */

enum { ACCEPT_LOCKS = 64 };

static bool is_listening(int descriptor)
{
    int listening = 0;
    socklen_t size = sizeof listening;
    return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
}

static mf_lock accept_locks[ACCEPT_LOCKS];

void mf_socket_forget_after_fork(void)
{
    for (int i = 0; i < ACCEPT_LOCKS; i++)
        atomic_store(&accept_locks[i].state, 0);
}

/*
 * Accepts if a connection is waiting. The lock stops fibers of other carriers: one of them could take the connection
 * between poll and accept, which would then block the carrier. The lock does not stop other processes that share a
 * blocking listener.
 */
static int accept_waiting(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    mf_lock *own = &accept_locks[(unsigned)descriptor % ACCEPT_LOCKS];
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    mf_lock_acquire(own);
    int ready = LIBC(poll)(&entry, 1, 0);
    int accepted = ready > 0 ? LIBC(accept4)(descriptor, address, size, flags) : mf_fail(-EAGAIN);
    mf_lock_release(own);
    return accepted;
}

/* True if accept is left to libc, because it does not wait or fails at once. */
static bool accept_is_libcs(int descriptor, int flags)
{
    if (!mf_current)
        return true;
    bool is_without_wait = (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) || mf_is_nonblocking(descriptor);
    if (is_without_wait)
        mf_consume_budget();
    return is_without_wait || !is_listening(descriptor);
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_READABLE};
    if (accept_is_libcs(descriptor, flags))
        return LIBC(accept4)(descriptor, address, size, flags);
    int accepted, before = errno;
    do
        accepted = accept_waiting(descriptor, address, size, flags);
    while (accepted < 0 && errno == EAGAIN && mf_wait_to_retry(&call));
    if (accepted >= 0 && !call.has_waited)
        mf_consume_budget();
    return (int)mf_settle(accepted, before);
}

int accept(int descriptor, struct sockaddr *address, socklen_t *size)
{
    return mf_current ? accept4(descriptor, address, size, 0) : LIBC(accept)(descriptor, address, size);
}

/* -------------------------------------------------------------------------------------------------- connecting --- */

/* Begins to connect without waiting. The socket is in non-blocking mode during this one call; nothing else can make
 * connect return. */
static int begin_connect(int descriptor, const struct sockaddr *address, socklen_t size, int flags)
{
    LIBC(fcntl)(descriptor, F_SETFL, flags | O_NONBLOCK);
    int result = LIBC(connect)(descriptor, address, size);
    int error = errno;
    LIBC(fcntl)(descriptor, F_SETFL, flags);
    errno = error;
    return result;
}

/* The second connect takes the socket out of its connecting state and returns the outcome. It does not wait, because
 * the outcome is known. */
static int await_connection(mf_blocking_call *call, const struct sockaddr *address, socklen_t size)
{
    struct pollfd entry = {.fd = call->descriptor, .events = POLLOUT};
    do {
        if (!mf_wait_to_retry(call)) {
            if (errno == EAGAIN)
                errno = EINPROGRESS; /* the result of a passed SO_SNDTIMEO (socket(7)) */
            return -1;
        }
    } while (LIBC(poll)(&entry, 1, 0) == 0);
    int result = LIBC(connect)(call->descriptor, address, size);
    return result < 0 && errno == EISCONN ? 0 : result;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t size)
{
    int before = errno, flags = mf_current ? LIBC(fcntl)(descriptor, F_GETFL) : -1;
    if (flags < 0 || (flags & O_NONBLOCK))
        return LIBC(connect)(descriptor, address, size);
    mf_blocking_call call = {.descriptor = descriptor, .direction = MR_WAIT_WRITABLE};
    uint64_t deadline_ns = mf_socket_deadline_ns(descriptor, MR_WAIT_WRITABLE);
    unsigned backoff_ms = 0;
    int result;
    do /* EAGAIN: the queue of a Unix listener is full, and no event reports when it has space */
        result = begin_connect(descriptor, address, size, flags);
    while (result < 0 && errno == EAGAIN && mf_back_off(&backoff_ms, deadline_ns));
    if (result < 0 && (errno == EINPROGRESS || errno == EALREADY))
        result = await_connection(&call, address, size);
    return (int)mf_settle(result, before);
}

ALIAS(__connect, connect);
