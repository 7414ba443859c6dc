/* plain.c: see plain.h. */
#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t outcome(int64_t result)
{
    return result < 0 ? -errno : result;
}

int64_t mrh_read_plain(int descriptor, void *buffer, size_t bytes)
{
    int64_t count;
    do
        count = read(descriptor, buffer, bytes);
    while (count < 0 && errno == EINTR);
    return outcome(count);
}

int64_t mrh_write_plain(int descriptor, const void *bytes, size_t count)
{
    int64_t written;
    do
        written = write(descriptor, bytes, count);
    while (written < 0 && errno == EINTR);
    return outcome(written);
}

static int is_ready(int descriptor, short events)
{
    struct pollfd polled = {.fd = descriptor, .events = events};
    return poll(&polled, 1, 0) > 0;
}

/* Opens a terminal once more, to be non-blocking there. The caller closes it after one call, because the program may
 * redirect a standard stream at any time. Returns -1 if the descriptor is not a terminal, or the terminal belongs to
 * another user. */
static int open_again(int descriptor, int flags)
{
    char path[32];
    if (!isatty(descriptor))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return open(path, flags | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
}

int64_t mrh_read_shared(int descriptor, void *buffer, size_t bytes)
{
    if (!is_ready(descriptor, POLLIN))
        return -EAGAIN;
    int terminal = open_again(descriptor, O_RDONLY);
    int64_t count = mrh_read_plain(terminal < 0 ? descriptor : terminal, buffer, bytes);
    if (terminal >= 0)
        close(terminal);
    return count;
}

int64_t mrh_write_shared(int descriptor, const void *bytes, size_t count)
{
    enum { READY_PIPE_BYTES = 512 }; /* POSIX's minimum of PIPE_BUF: a pipe that is ready accepts this many bytes */
    if (!is_ready(descriptor, POLLOUT))
        return -EAGAIN;
    int terminal = open_again(descriptor, O_WRONLY); /* a terminal may be ready and accept fewer bytes */
    if (terminal < 0)
        return mrh_write_plain(descriptor, bytes, count < READY_PIPE_BYTES ? count : READY_PIPE_BYTES);
    int64_t written = mrh_write_plain(terminal, bytes, count);
    close(terminal);
    return written;
}

int mrh_set_nonblocking(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL, 0);
    return flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int mrh_pipe(int ends[2], int read_nonblocking, int write_nonblocking)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int error = read_nonblocking ? mrh_set_nonblocking(ends[0]) : 0;
    if (!error && write_nonblocking)
        error = mrh_set_nonblocking(ends[1]);
    if (error) {
        close(ends[0]);
        close(ends[1]);
    }
    return error;
}

int mrh_open_fifo(const char *path, int for_writing)
{
    struct stat status;
    int descriptor = open(path, (for_writing ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return -errno;
    if (fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode))
        return descriptor;
    close(descriptor);
    return -EINVAL;
}

int mrh_pipe_capacity(int descriptor, int bytes)
{
#ifdef F_SETPIPE_SZ
    return (int)outcome(bytes > 0 ? fcntl(descriptor, F_SETPIPE_SZ, bytes) : fcntl(descriptor, F_GETPIPE_SZ));
#else
    (void)descriptor, (void)bytes;
    return -EOPNOTSUPP;
#endif
}

int64_t mrh_splice(int from, int to, size_t bytes)
{
#ifdef SPLICE_F_NONBLOCK
    int64_t count;
    do
        count = splice(from, NULL, to, NULL, bytes, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    while (count < 0 && errno == EINTR);
    return outcome(count);
#else
    (void)from, (void)to, (void)bytes;
    return -EOPNOTSUPP;
#endif
}
