/*
 * file.c: all variants of read and write, on any descriptor.
 *
 * The first attempt is preadv2 or pwritev2 with RWF_NOWAIT. It leaves the descriptor's flags alone, and works on pipes,
 * sockets, event descriptors and files whose pages are in memory. If the kernel refuses (EOPNOTSUPP), it depends
 * on the descriptor. For a file, a helper thread makes the call. For a device, a new thread makes the call, because
 * only the call itself shows whether it waits. For any other kind, poll comes first.
 */
#include "../mask.h"
#include "../offload.h"
#include "../watch.h"
#include "blocking.h"
#include "last_receive.h"
#include "libc.h"
#include "proc.h"
#include "socket.h"
#include "terminal.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

MF_ALWAYS_LINKED(file);

enum {
    AT_POSITION = -1, /* instead of an offset: the descriptor's position */
    EVENT_BYTES = 8,  /* reads and writes of an event descriptor have this size */
    VECTOR_ON_STACK = 8,
};

#define EVENTS_MAX (UINT64_MAX - 1) /* the highest count of an event descriptor */

/* A call of read, write or a variant of them. */
typedef enum transfer_direction { READING, WRITING } transfer_direction;

typedef struct transfer {
    mf_blocking_call call;
    transfer_direction direction;
    off64_t offset; /* or AT_POSITION */
    int flags;      /* of preadv2 and pwritev2 */
    struct iovec *vector;
    int count;
    size_t done;
    bool was_offloaded; /* the last attempt ran on a helper thread, as a blocking call; do not continue it */
} transfer;

static bool is_writing(const transfer *t)
{
    return t->direction == WRITING;
}

typedef enum descriptor_kind { KIND_FILE, KIND_PIPE, KIND_SOCKET, KIND_DEVICE, KIND_OTHER } descriptor_kind;

static descriptor_kind kind_of(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return KIND_OTHER;
    switch (status.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        return KIND_FILE;
    case S_IFIFO:
        return KIND_PIPE;
    case S_IFSOCK:
        return KIND_SOCKET;
    case S_IFCHR:
        return KIND_DEVICE;
    default:
        return KIND_OTHER;
    }
}

/* ---------------------------------------------------------------------------------------------------- attempts --- */

static ssize_t attempt_without_waiting(const transfer *t)
{
    int flags = t->flags | RWF_NOWAIT;
    if (t->call.is_local_send)
        return mf_send_once(&t->call, &(struct msghdr){.msg_iov = t->vector, .msg_iovlen = (size_t)t->count}, 0);
    return is_writing(t) ? LIBC(pwritev64v2)(t->call.descriptor, t->vector, t->count, t->offset, flags)
                         : LIBC(preadv64v2)(t->call.descriptor, t->vector, t->count, t->offset, flags);
}

/* For systems without preadv2, where libc returns EOPNOTSUPP. A socket has calls that do not wait. Polling it first
 * would be wrong: a receive may also end when poll reports nothing. */
static ssize_t attempt_on_socket(const transfer *t)
{
    struct msghdr message = {.msg_iov = t->vector, .msg_iovlen = (size_t)t->count};
    return is_writing(t) ? LIBC(sendmsg)(t->call.descriptor, &message, MSG_DONTWAIT)
                         : LIBC(recvmsg)(t->call.descriptor, &message, MSG_DONTWAIT);
}

/* Makes the call, which may block. */
static ssize_t perform(const transfer *t)
{
    if (t->flags)
        return is_writing(t) ? LIBC(pwritev64v2)(t->call.descriptor, t->vector, t->count, t->offset, t->flags)
                             : LIBC(preadv64v2)(t->call.descriptor, t->vector, t->count, t->offset, t->flags);
    if (t->offset == AT_POSITION)
        return is_writing(t) ? LIBC(writev)(t->call.descriptor, t->vector, t->count)
                             : LIBC(readv)(t->call.descriptor, t->vector, t->count);
    return is_writing(t) ? LIBC(pwritev64)(t->call.descriptor, t->vector, t->count, t->offset)
                         : LIBC(preadv64)(t->call.descriptor, t->vector, t->count, t->offset);
}

static size_t left_bytes(const transfer *t)
{
    size_t total = 0;
    for (int i = 0; i < t->count; i++)
        total += t->vector[i].iov_len;
    return total;
}

/* Writes at most PIPE_BUF bytes, which do not block after poll has reported POLLOUT (pipe(7)). */
static ssize_t perform_a_little(const transfer *t)
{
    if (left_bytes(t) <= PIPE_BUF)
        return LIBC(writev)(t->call.descriptor, t->vector, t->count);
    struct iovec first = *t->vector;
    if (first.iov_len > PIPE_BUF)
        first.iov_len = PIPE_BUF;
    return LIBC(writev)(t->call.descriptor, &first, 1);
}

typedef struct helper_call {
    const transfer *transfer;
    uint64_t mask;
    ssize_t result;
    bool has_sigxfsz;
} helper_call;

/* Makes the call on a helper thread. A write beyond RLIMIT_FSIZE sends SIGXFSZ to the writing thread; helper threads
 * block this signal, so the fiber raises it. */
static void run_helper_call(void *argument)
{
    helper_call *e = argument;
    uint64_t before = mf_mask_set(e->mask);
    e->result = perform(e->transfer);
    int error = errno;
    e->has_sigxfsz = e->result < 0 && error == EFBIG && mf_mask_consume(SIGXFSZ);
    mf_mask_set(before);
    errno = error;
}

/* A terminal stops a background process that reads it, unless the process blocks the signal. Then the read fails
 * instead. */
static uint64_t mask_of_helper(void)
{
    return ~(MF_MASK_BIT(SIGTTIN) | MF_MASK_BIT(SIGTTOU)) | mf_mask_of_fiber();
}

static ssize_t perform_on_helper(const transfer *t, void (*offload)(mf_work, void *))
{
    helper_call e = {.transfer = t, .mask = mask_of_helper()};
    offload(run_helper_call, &e);
    int error = errno;
    if (e.has_sigxfsz)
        raise(SIGXFSZ);
    errno = error;
    return e.result;
}

static bool is_ready(const transfer *t)
{
    struct pollfd entry = {.fd = t->call.descriptor, .events = is_writing(t) ? POLLOUT : POLLIN};
    return LIBC(poll)(&entry, 1, 0) != 0;
}

/* True if memory is readable. The kernel reads the set before it refuses the call. */
static bool is_readable(const void *set)
{
    enum { NO_CHANGE = -1 };
    return syscall(SYS_rt_sigprocmask, NO_CHANGE, set, NULL, EVENT_BYTES) == 0 || errno != EFAULT;
}

/* True if the counter can take the added value. poll reports an event descriptor as writable while it can take 1. */
static bool fits_counter(const transfer *t)
{
    char path[sizeof "/proc/self/fdinfo/-2147483648"];
    uint64_t added, count;
    memcpy(&added, t->vector->iov_base, sizeof added);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", t->call.descriptor);
    if (added <= 1 || added > EVENTS_MAX || !mf_proc_number(path, "eventfd-count:", 16, &count))
        return true;
    return added <= EVENTS_MAX - count;
}

/* A write that is not an event fails at once. */
static ssize_t write_event(transfer *t)
{
    bool is_event = t->vector->iov_len == EVENT_BYTES && is_readable(t->vector->iov_base);
    if (is_event && !is_ready(t))
        return mf_fail(-EAGAIN);
    t->call.is_unannounced = is_event && !fits_counter(t);
    return t->call.is_unannounced ? mf_fail(-EAGAIN) : perform_a_little(t);
}

static ssize_t attempt_after_poll(transfer *t, descriptor_kind kind)
{
    if (is_writing(t) && kind == KIND_OTHER)
        return write_event(t);
    if (!is_ready(t))
        return mf_fail(-EAGAIN);
    return is_writing(t) ? perform_a_little(t) : perform(t);
}

/* Reads from a terminal with a time limit. If no byte comes in time, the read returns 0. */
static ssize_t read_within(const transfer *t, uint64_t limit_ns)
{
    uint64_t deadline_ns = mr_clock_now_ns() + limit_ns;
    int error;
    do
        error = mf_watch_wait(t->call.descriptor, MR_WAIT_READABLE, deadline_ns);
    while (!error && !is_ready(t));
    if (!error)
        return perform(t);
    return error == MF_DEADLINE_PASSED ? 0 : mf_fail(error);
}

static ssize_t read_device(transfer *t)
{
    uint64_t limit_ns;
    switch (mf_terminal_check(t->call.descriptor, left_bytes(t), &limit_ns)) {
    case MF_TERMINAL_READY:
        return perform(t);
    case MF_TERMINAL_TIMED:
        return read_within(t, limit_ns);
    case MF_TERMINAL_UNANNOUNCED:
        t->call.is_unannounced = true;
        return mf_fail(-EAGAIN);
    case MF_TERMINAL_EMPTY:
        return mf_fail(-EAGAIN);
    case MF_TERMINAL_NONE:
        if (!is_ready(t))
            return mf_fail(-EAGAIN);
        break;
    case MF_TERMINAL_BEGUN:
        break;
    }
    return perform_on_helper(t, mf_offload_to_new_thread);
}

/* For a device, POLLOUT does not mean that a write does not block. It may take a message whole or not at all. A
 * terminal needs more space than the line has bytes, because it turns "\n" into two bytes. */
static ssize_t attempt_on_device(transfer *t)
{
    return is_writing(t) ? perform_on_helper(t, mf_offload_to_new_thread) : read_device(t);
}

/* True if the kernel may have refused the call because it would wait. The error is mostly EOPNOTSUPP. f2fs and gfs2
 * return EINVAL for a write into the cache (generic_write_checks_count in fs/read_write.c). */
static bool may_mean_waiting(const transfer *t, int error)
{
    return error == EAGAIN || error == EOPNOTSUPP || error == ENOSYS || (error == EINVAL && is_writing(t));
}

/* EAGAIN from a file means that its pages are not in memory, whatever the descriptor's flags. Files have no non-
 * blocking mode. */
static ssize_t attempt(transfer *t)
{
    t->was_offloaded = false;
    ssize_t result = attempt_without_waiting(t);
    int error = errno;
    if (result >= 0 || !may_mean_waiting(t, error))
        return result;
    descriptor_kind kind = kind_of(t->call.descriptor);
    if ((error == ENOSYS || error == EOPNOTSUPP) && kind == KIND_SOCKET && t->offset == AT_POSITION && !t->flags) {
        result = attempt_on_socket(t);
        error = errno;
        if (result >= 0 || error != EAGAIN)
            return result;
    }
    t->was_offloaded = kind == KIND_FILE;
    if (t->was_offloaded)
        return perform_on_helper(t, mf_offload);
    if (error == EAGAIN || error == EINVAL)
        return mf_is_shut_for_receiving(&t->call) ? perform(t) : mf_fail(-error);
    if (mf_is_nonblocking(t->call.descriptor))
        return perform(t);
    return kind == KIND_DEVICE ? attempt_on_device(t) : attempt_after_poll(t, kind);
}

/* ---------------------------------------------------------------------------------------------- whole transfers --- */

static void advance(transfer *t, size_t transferred)
{
    t->done += transferred;
    if (t->offset != AT_POSITION)
        t->offset += (off64_t)transferred;
    while (t->count && transferred >= t->vector->iov_len) {
        transferred -= t->vector->iov_len;
        t->vector++;
        t->count--;
    }
    if (t->count) {
        t->vector->iov_base = (char *)t->vector->iov_base + transferred;
        t->vector->iov_len -= transferred;
    }
}

/* True if a read must continue. A read that got some bytes is complete, except from a file, where a short read means
 * that the rest was not in memory. */
static bool is_short_of_file(const transfer *t)
{
    struct stat status;
    if (left_bytes(t) == 0 || mf_seems_empty(t->call.descriptor))
        return false;
    if (fstat(t->call.descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    off64_t position = t->offset == AT_POSITION ? lseek64(t->call.descriptor, 0, SEEK_CUR) : t->offset;
    return position < status.st_size;
}

/* True if fewer bytes than the socket's SO_RCVLOWAT have been received. Whether the socket is in blocking mode is
 * checked only when no more bytes are there. */
static bool is_short_of_mark(const transfer *t)
{
    size_t mark = mf_receive_mark(t->call.descriptor);
    return t->done < mark && left_bytes(t) && !mf_is_at_end(t->call.descriptor);
}

/* True if a blocking write must continue, because bytes are left. A write on a device or event descriptor does not
 * continue: it decides itself how many bytes it takes. */
static bool must_write_on(transfer *t)
{
    struct msghdr rest = {.msg_iov = t->vector, .msg_iovlen = (size_t)t->count};
    if (left_bytes(t) == 0 || t->was_offloaded)
        return false;
    switch (kind_of(t->call.descriptor)) {
    case KIND_SOCKET:
        t->done += (size_t)mf_send_rest(&t->call, &rest, 0, 0);
        return false;
    case KIND_DEVICE:
    case KIND_OTHER:
        return false;
    default:
        return true;
    }
}

static ssize_t try_until_moved(transfer *t)
{
    ssize_t moved;
    do
        moved = attempt(t);
    while (moved < 0 && errno == EAGAIN && mf_wait_to_retry(&t->call));
    mf_note_progress(&t->call);
    return moved;
}

static ssize_t run(transfer *t)
{
    ssize_t moved;
    t->call.is_unannounced = !is_writing(t) && mf_receive_mark(t->call.descriptor) > 1;
    if (!is_writing(t) && mf_seems_empty(t->call.descriptor) && !mf_wait_to_try(&t->call))
        return -1;
    do {
        size_t wanted = left_bytes(t);
        moved = try_until_moved(t);
        if (!is_writing(t))
            mf_note_received(t->call.descriptor, wanted, moved);
        if (moved > 0)
            advance(t, (size_t)moved);
    } while (moved > 0 && (is_writing(t) ? must_write_on(t) : is_short_of_file(t) || is_short_of_mark(t)));
    if (!t->call.has_waited)
        mf_consume_budget();
    if (moved < 0 && t->done)
        mf_wait_put_interruption_back(errno);
    return moved < 0 && !t->done ? -1 : (ssize_t)t->done;
}

static ssize_t run_with_flags(int descriptor, const struct iovec *vector, int count, off64_t offset,
                              transfer_direction direction, int flags)
{
    struct iovec on_stack[VECTOR_ON_STACK], *copy = on_stack;
    transfer t = {
        .call = {.descriptor = descriptor, .direction = direction == WRITING ? MR_WAIT_WRITABLE : MR_WAIT_READABLE},
        .direction = direction,
        .offset = offset,
        .count = count,
        .flags = flags};
    if (count > VECTOR_ON_STACK) {
        copy = malloc((size_t)count * sizeof *copy);
        if (!copy)
            return mf_fail(-ENOMEM);
    }
    memcpy(copy, vector, (size_t)count * sizeof *copy);
    t.vector = copy;
    int before = errno;
    ssize_t result = mf_settle(run(&t), before);
    if (copy != on_stack)
        free(copy); /* free keeps errno */
    return result;
}

static ssize_t run_vector(int descriptor, const struct iovec *vector, int count, off64_t offset,
                          transfer_direction direction)
{
    return run_with_flags(descriptor, vector, count, offset, direction, 0);
}

static ssize_t run_buffer(int descriptor, const void *buffer, size_t size, off64_t offset, transfer_direction direction)
{
    return run_vector(descriptor, &(struct iovec){(void *)buffer, size}, 1, offset, direction);
}

/* ----------------------------------------------------------------------------------------- the interposed names --- */

/* True for calls that are left to libc, because they cannot wait or fail at once: without bytes (preadv2 does not even
 * check the descriptor), with a negative offset (preadv2 would use the current position), or with an invalid vector. */
static bool is_libcs(size_t size, off64_t offset)
{
    return !mf_current || size == 0 || offset < 0;
}

static bool is_libcs_vector(const struct iovec *vector, int count, off64_t offset)
{
    size_t total = 0;
    if (!mf_current || !vector || count <= 0 || count > IOV_MAX || offset < 0)
        return true;
    for (int i = 0; i < count; i++)
        if (__builtin_add_overflow(total, vector[i].iov_len, &total) || total > SSIZE_MAX)
            return true;
    return total == 0;
}

ssize_t read(int descriptor, void *buffer, size_t size)
{
    return is_libcs(size, 0) ? LIBC(read)(descriptor, buffer, size)
                             : run_buffer(descriptor, buffer, size, AT_POSITION, READING);
}

/* Writing no bytes to a datagram socket sends an empty datagram. */
ssize_t write(int descriptor, const void *buffer, size_t size)
{
    if (mf_current && size == 0 && kind_of(descriptor) == KIND_SOCKET)
        return send(descriptor, buffer, 0, 0);
    return is_libcs(size, 0) ? LIBC(write)(descriptor, buffer, size)
                             : run_buffer(descriptor, buffer, size, AT_POSITION, WRITING);
}

ssize_t pread64(int descriptor, void *buffer, size_t size, off64_t offset)
{
    return is_libcs(size, offset) ? LIBC(pread64)(descriptor, buffer, size, offset)
                                  : run_buffer(descriptor, buffer, size, offset, READING);
}

ssize_t pwrite64(int descriptor, const void *buffer, size_t size, off64_t offset)
{
    return is_libcs(size, offset) ? LIBC(pwrite64)(descriptor, buffer, size, offset)
                                  : run_buffer(descriptor, buffer, size, offset, WRITING);
}

ssize_t readv(int descriptor, const struct iovec *vector, int count)
{
    return is_libcs_vector(vector, count, 0) ? LIBC(readv)(descriptor, vector, count)
                                             : run_vector(descriptor, vector, count, AT_POSITION, READING);
}

ssize_t writev(int descriptor, const struct iovec *vector, int count)
{
    return is_libcs_vector(vector, count, 0) ? LIBC(writev)(descriptor, vector, count)
                                             : run_vector(descriptor, vector, count, AT_POSITION, WRITING);
}

ssize_t preadv64(int descriptor, const struct iovec *vector, int count, off64_t offset)
{
    return is_libcs_vector(vector, count, offset) ? LIBC(preadv64)(descriptor, vector, count, offset)
                                                  : run_vector(descriptor, vector, count, offset, READING);
}

ssize_t pwritev64(int descriptor, const struct iovec *vector, int count, off64_t offset)
{
    return is_libcs_vector(vector, count, offset) ? LIBC(pwritev64)(descriptor, vector, count, offset)
                                                  : run_vector(descriptor, vector, count, offset, WRITING);
}

/* True if a file in memory accepts these flags. It accepts those that any pipe or socket accepts, and none that only
 * disks know. */
static bool are_taken_in_memory(transfer_direction direction, int flags)
{
    char byte = 0;
    int error = errno, file = memfd_create("flags", MFD_CLOEXEC);
    transfer t = {.call = {.descriptor = file},
                  .direction = direction,
                  .vector = &(struct iovec){&byte, 1},
                  .count = 1,
                  .flags = flags};
    bool are_taken = file < 0 || perform(&t) >= 0;
    if (file >= 0)
        LIBC(close)(file);
    errno = error;
    return are_taken;
}

/* True if the kernel refuses the flags on this descriptor. One that is not a file refuses unknown flags before it would
 * wait. Descriptors without an iterator, such as event descriptors, accept only RWF_HIPRI (do_loop_readv_writev in
 * fs/read_write.c). */
static bool are_flags_refused(int descriptor, transfer_direction direction, int flags)
{
    if (!(flags & ~RWF_HIPRI))
        return false;
    descriptor_kind kind = kind_of(descriptor);
    if (kind == KIND_FILE)
        return false;
    return (kind == KIND_OTHER && direction == WRITING) || !are_taken_in_memory(direction, flags);
}

/* Here an offset of -1 means the descriptor's position. */
static bool is_libcs_with_flags(const struct iovec *vector, int count, off64_t offset)
{
    return is_libcs_vector(vector, count, offset == AT_POSITION ? 0 : offset);
}

/* True if the call fails at once or does not wait. */
static bool is_without_wait(int descriptor, transfer_direction direction, int flags)
{
    if (!(flags & RWF_NOWAIT))
        return are_flags_refused(descriptor, direction, flags);
    mf_consume_budget();
    return true;
}

ssize_t preadv64v2(int descriptor, const struct iovec *vector, int count, off64_t offset, int flags)
{
    return is_libcs_with_flags(vector, count, offset) || is_without_wait(descriptor, READING, flags)
               ? LIBC(preadv64v2)(descriptor, vector, count, offset, flags)
               : run_with_flags(descriptor, vector, count, offset, READING, flags);
}

ssize_t pwritev64v2(int descriptor, const struct iovec *vector, int count, off64_t offset, int flags)
{
    return is_libcs_with_flags(vector, count, offset) || is_without_wait(descriptor, WRITING, flags)
               ? LIBC(pwritev64v2)(descriptor, vector, count, offset, flags)
               : run_with_flags(descriptor, vector, count, offset, WRITING, flags);
}

int eventfd_read(int descriptor, eventfd_t *value)
{
    return read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int eventfd_write(int descriptor, eventfd_t value)
{
    return write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------------ aliases --- */

static_assert(sizeof(off_t) == sizeof(off64_t), "the names with and without 64 are one function");

ALIAS(pread, pread64);
ALIAS(pwrite, pwrite64);
ALIAS(preadv, preadv64);
ALIAS(pwritev, pwritev64);
ALIAS(preadv2, preadv64v2);
ALIAS(pwritev2, pwritev64v2);
ALIAS(__read, read);
ALIAS(__write, write);
ALIAS(__pread64, pread64);
ALIAS(__pwrite64, pwrite64);

/* Fortified calls. libc reports a size beyond the buffer's. */

ssize_t __read_chk(int descriptor, void *buffer, size_t size, size_t buffer_size)
{
    return mf_current && size <= buffer_size ? read(descriptor, buffer, size)
                                             : LIBC(__read_chk)(descriptor, buffer, size, buffer_size);
}

ssize_t __pread64_chk(int descriptor, void *buffer, size_t size, off64_t offset, size_t buffer_size)
{
    return mf_current && size <= buffer_size ? pread64(descriptor, buffer, size, offset)
                                             : LIBC(__pread64_chk)(descriptor, buffer, size, offset, buffer_size);
}

ALIAS(__pread_chk, __pread64_chk);
