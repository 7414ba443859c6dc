/* http_file.c - opens and reads files to be served. */
#define _GNU_SOURCE
#include "http_file.h"

#include "millrace_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__linux__) && __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif

#ifndef O_PATH
#define O_PATH 0 /* not on Linux: no /proc either, and the path is as good as any */
#endif

static int check_regular(const struct stat *status)
{
    if (S_ISREG(status->st_mode))
        return 0;
    return S_ISDIR(status->st_mode) ? -EISDIR : -EACCES;
}

/* The number at the end of /proc/self/fd/N; -1 if it is another path. */
static int descriptor_in(const char *path)
{
    const char directory[] = "/proc/self/fd/";
    const size_t length = sizeof directory - 1;
    if (strncmp(path, directory, length) != 0 || path[length] < '1' || path[length] > '9')
        return -1;
    char *end;
    errno = 0;
    long number = strtol(path + length, &end, 10);
    return *end == '\0' && errno == 0 && number <= INT_MAX ? (int)number : -1;
}

/* The path may be that of a file that the application has open. Another descriptor of it costs much less than opening
 * it by that path. The two share an offset, which nobody here uses. -1 if it is not open for reading. */
static int duplicate_open_file(const char *path)
{
    int number = descriptor_in(path);
    int flags = number < 0 ? -1 : fcntl(number, F_GETFL);
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY)
        return -1;
    return fcntl(number, F_DUPFD_CLOEXEC, 0);
}

/* O_NONBLOCK: opening a pipe would wait for a writer. It means nothing to regular files. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

static int open_by_path(const char *path)
{
    int descriptor;
    do {
        descriptor = open(path, OPEN_FLAGS);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

#ifdef RESOLVE_CACHED
/* EAGAIN: some directory entry of the path is not in memory. Linux before 5.12 does not know that question (EINVAL,
 * ENOSYS), and a container may forbid it (EPERM). */
static int open_cached(const char *path)
{
    static atomic_bool is_missing;
    if (atomic_load_explicit(&is_missing, memory_order_relaxed))
        return open_by_path(path);
    struct open_how how = {.flags = OPEN_FLAGS | O_LARGEFILE, .resolve = RESOLVE_CACHED};
    int descriptor = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (descriptor < 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM)) {
        if (errno != EPERM)
            atomic_store_explicit(&is_missing, true, memory_order_relaxed);
        return open_by_path(path);
    }
    return descriptor;
}
#else
static int open_cached(const char *path)
{
    return open_by_path(path);
}
#endif

int http_file_examine(int descriptor, http_file *file)
{
    struct stat status;
    int error = fstat(descriptor, &status) == 0 ? check_regular(&status) : -errno;
    if (error < 0)
        return error;
    file->descriptor = descriptor;
    file->size = status.st_size;
    file->modified_seconds = status.st_mtime;
    return 0;
}

typedef int opener(const char *path);

static int open_file(const void *path, http_file *file, opener *open_path)
{
    int descriptor = duplicate_open_file(path);
    if (descriptor < 0)
        descriptor = open_path(path);
    if (descriptor < 0)
        return -errno;
    int error = http_file_examine(descriptor, file);
    if (error < 0)
        close(descriptor);
    return error;
}

int http_file_open(const void *path, http_file *file)
{
    return open_file(path, file, open_by_path);
}

int http_file_open_at_once(const void *path, http_file *file)
{
    return open_file(path, file, open_cached);
}

typedef ssize_t read_at(int descriptor, void *destination, size_t length, off_t offset);

static int64_t read_all(read_at *read_part, int descriptor, uint8_t *destination, size_t length, int64_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t count = read_part(descriptor, destination + done, length - done, offset + (int64_t)done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (int64_t)done;
}

int64_t http_file_read(int descriptor, uint8_t *destination, size_t length, int64_t offset)
{
    return read_all(pread, descriptor, destination, length, offset);
}

/* File systems that cannot tell whether they would wait are read as they are. */
static ssize_t read_cached(int descriptor, void *destination, size_t length, off_t offset)
{
#ifdef RWF_NOWAIT
    if (offset < 0) { /* preadv2 takes -1 for the file's position */
        errno = EINVAL;
        return -1;
    }
    struct iovec vector = {.iov_base = destination, .iov_len = length};
    ssize_t count = preadv2(descriptor, &vector, 1, offset, RWF_NOWAIT);
    if (count >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return count;
#endif
    return pread(descriptor, destination, length, offset);
}

int64_t http_file_read_at_once(int descriptor, uint8_t *destination, size_t length, int64_t offset)
{
    return read_all(read_cached, descriptor, destination, length, offset);
}

void http_file_close(int descriptor)
{
    bool is_closed = close(descriptor) == 0 || errno != EBADF;
    MR_CHECK(is_closed); /* after a second close, the number may be a stranger's */
}

int http_file_lock_folder(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        return descriptor;
    int error = errno == EWOULDBLOCK ? EAGAIN : errno;
    close(descriptor);
    return -error;
}
