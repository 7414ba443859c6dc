/* work.c: see work.h. */
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#endif

enum { MOVED_AT_ONCE = 1 << 20 }; /* a file's deadline is checked in between */

static int64_t outcome(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* Helpers block all signals, but calls on network file systems may return EINTR nevertheless. */
#define AGAIN_IF_INTERRUPTED(call)             \
    ({                                         \
        int64_t result_;                       \
        do                                     \
            result_ = (call);                  \
        while (result_ < 0 && errno == EINTR); \
        outcome(result_);                      \
    })

static int descriptor_of(const mrh_job *job)
{
    return (int)job->numbers[0];
}

/* The output is a copy of that many bytes. */
static int64_t put_out(mrh_job *job, const void *bytes, size_t count)
{
    job->output = malloc(count ? count : 1);
    if (!job->output)
        return -ENOMEM;
    memcpy(job->output, bytes, count);
    job->output_bytes = count;
    return 0;
}

/* Opens with O_NONBLOCK first, because opening a FIFO would wait for its other end. That fails with EWOULDBLOCK if another
 * process has a lease on the file (fcntl(2)). Only regular files have leases, so the second open waits for that alone. */
int64_t mrh_do_open(mrh_job *job)
{
    int flags = (int)job->numbers[0] | O_CLOEXEC | O_NOCTTY;
    mode_t mode = (mode_t)job->numbers[1];
    int descriptor = open(job->texts[0], flags | O_NONBLOCK, mode);
    if (descriptor < 0 && errno == EWOULDBLOCK)
        descriptor = open(job->texts[0], flags, mode);
    if (descriptor < 0)
        return -errno;
    struct stat status;
    int error = 0;
    if (fstat(descriptor, &status) < 0)
        error = -errno; /* NOLINT(bugprone-branch-clone): the order of the checks counts */
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISBLK(status.st_mode))
        error = -ESPIPE;
    else if (fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL, 0) & ~O_NONBLOCK) < 0)
        error = -errno;
    if (error)
        close(descriptor);
    return error ? error : descriptor;
}

int64_t mrh_do_open_temporary(mrh_job *job)
{
#ifdef O_TMPFILE
    return outcome(open(job->texts[0], O_TMPFILE | O_RDWR | O_CLOEXEC, (mode_t)job->numbers[0]));
#else
    (void)job;
    return -EOPNOTSUPP;
#endif
}

int64_t mrh_do_read(mrh_job *job)
{
    return AGAIN_IF_INTERRUPTED(pread(descriptor_of(job), job->memory, (size_t)job->numbers[2], job->numbers[1]));
}

int64_t mrh_do_write(mrh_job *job)
{
    int64_t done = 0, bytes = job->numbers[2];
    while (done < bytes) {
        int64_t part = AGAIN_IF_INTERRUPTED(pwrite(descriptor_of(job), (const char *)job->memory + done,
                                                   (size_t)(bytes - done), job->numbers[1] + done));
        if (part < 0)
            return part;
        done += part;
    }
    return done;
}

int64_t mrh_do_append(mrh_job *job)
{
    int64_t done = 0, bytes = job->numbers[1];
    while (done < bytes) {
        int64_t part =
            AGAIN_IF_INTERRUPTED(write(descriptor_of(job), (const char *)job->memory + done, (size_t)(bytes - done)));
        if (part < 0)
            return part;
        done += part;
    }
    return done;
}

int64_t mrh_do_read_vector(mrh_job *job)
{
    return AGAIN_IF_INTERRUPTED(preadv(descriptor_of(job), job->memory, (int)job->numbers[2], job->numbers[1]));
}

/* The array is consumed. */
int64_t mrh_do_write_vector(mrh_job *job)
{
    struct iovec *vector = job->memory;
    int64_t done = 0;
    int count = (int)job->numbers[2];
    while (count > 0) {
        int64_t part = AGAIN_IF_INTERRUPTED(pwritev(descriptor_of(job), vector, count, job->numbers[1] + done));
        if (part < 0)
            return part;
        done += part;
        for (; count > 0 && (size_t)part >= vector->iov_len; vector++, count--)
            part -= (int64_t)vector->iov_len;
        if (count > 0) {
            vector->iov_base = (char *)vector->iov_base + part;
            vector->iov_len -= (size_t)part;
        }
    }
    return done;
}

int64_t mrh_do_sync(mrh_job *job)
{
    return AGAIN_IF_INTERRUPTED(fsync(descriptor_of(job)));
}

int64_t mrh_do_sync_data(mrh_job *job)
{
#ifdef __APPLE__
    return AGAIN_IF_INTERRUPTED(fsync(descriptor_of(job)));
#else
    return AGAIN_IF_INTERRUPTED(fdatasync(descriptor_of(job)));
#endif
}

int64_t mrh_do_resize(mrh_job *job)
{
    return AGAIN_IF_INTERRUPTED(ftruncate(descriptor_of(job), job->numbers[1]));
}

int64_t mrh_do_allocate(mrh_job *job)
{
#ifdef __linux__
    return AGAIN_IF_INTERRUPTED(fallocate(descriptor_of(job), (int)job->numbers[1], job->numbers[2], job->numbers[3]));
#else
    (void)job;
    return -EOPNOTSUPP;
#endif
}

static int64_t put_status(mrh_job *job, const struct stat *status)
{
    mrh_status out = {
        .device = (int64_t)status->st_dev,
        .inode = (int64_t)status->st_ino,
        .mode = status->st_mode,
        .links = (int64_t)status->st_nlink,
        .user = status->st_uid,
        .group = status->st_gid,
        .size = status->st_size,
        .blocks_512 = status->st_blocks,
        .block_bytes = status->st_blksize,
#ifdef __APPLE__
        .accessed_s = status->st_atimespec.tv_sec,
        .accessed_ns = status->st_atimespec.tv_nsec,
        .modified_s = status->st_mtimespec.tv_sec,
        .modified_ns = status->st_mtimespec.tv_nsec,
        .changed_s = status->st_ctimespec.tv_sec,
        .changed_ns = status->st_ctimespec.tv_nsec,
#else
        .accessed_s = status->st_atim.tv_sec,
        .accessed_ns = status->st_atim.tv_nsec,
        .modified_s = status->st_mtim.tv_sec,
        .modified_ns = status->st_mtim.tv_nsec,
        .changed_s = status->st_ctim.tv_sec,
        .changed_ns = status->st_ctim.tv_nsec,
#endif
    };
    return put_out(job, &out, sizeof out);
}

int64_t mrh_do_status_of(mrh_job *job)
{
    struct stat status;
    return fstat(descriptor_of(job), &status) < 0 ? -errno : put_status(job, &status);
}

int64_t mrh_do_status(mrh_job *job)
{
    struct stat status;
    int flags = job->numbers[0] ? 0 : AT_SYMLINK_NOFOLLOW;
    return fstatat(AT_FDCWD, job->texts[0], &status, flags) < 0 ? -errno : put_status(job, &status);
}

int64_t mrh_do_rename(mrh_job *job)
{
#ifdef __linux__
    if (job->numbers[0])
        return outcome(renameat2(AT_FDCWD, job->texts[0], AT_FDCWD, job->texts[1], (unsigned)job->numbers[0]));
#else
    if (job->numbers[0])
        return -EOPNOTSUPP;
#endif
    return outcome(rename(job->texts[0], job->texts[1]));
}

int64_t mrh_do_unlink(mrh_job *job)
{
    return outcome(job->numbers[0] ? rmdir(job->texts[0]) : unlink(job->texts[0]));
}

int64_t mrh_do_mkdir(mrh_job *job)
{
    return outcome(mkdir(job->texts[0], (mode_t)job->numbers[0]));
}

int64_t mrh_do_mkfifo(mrh_job *job)
{
    return outcome(mkfifo(job->texts[0], (mode_t)job->numbers[0]));
}

int64_t mrh_do_link(mrh_job *job)
{
    return outcome(link(job->texts[0], job->texts[1]));
}

int64_t mrh_do_symlink(mrh_job *job)
{
    return outcome(symlink(job->texts[0], job->texts[1]));
}

int64_t mrh_do_readlink(mrh_job *job)
{
    char content[PATH_MAX];
    ssize_t count = readlink(job->texts[0], content, sizeof content);
    return count < 0 ? -errno : put_out(job, content, (size_t)count);
}

int64_t mrh_do_realpath(mrh_job *job)
{
    char *path = realpath(job->texts[0], NULL);
    if (!path)
        return -errno;
    job->output = path;
    job->output_bytes = strlen(path);
    return 0;
}

int64_t mrh_do_chmod(mrh_job *job)
{
    return outcome(chmod(job->texts[0], (mode_t)job->numbers[0]));
}

int64_t mrh_do_chmod_of(mrh_job *job)
{
    return AGAIN_IF_INTERRUPTED(fchmod(descriptor_of(job), (mode_t)job->numbers[1]));
}

int64_t mrh_do_chown(mrh_job *job)
{
    uid_t user = (uid_t)job->numbers[0];
    gid_t group = (gid_t)job->numbers[1];
    return outcome(fchownat(AT_FDCWD, job->texts[0], user, group, job->numbers[2] ? 0 : AT_SYMLINK_NOFOLLOW));
}

int64_t mrh_do_set_times(mrh_job *job)
{
    struct timespec times[2] = {
        {.tv_sec = job->numbers[0], .tv_nsec = (long)job->numbers[1]},
        {.tv_sec = job->numbers[2], .tv_nsec = (long)job->numbers[3]},
    };
    return outcome(utimensat(AT_FDCWD, job->texts[0], times, job->numbers[4] ? 0 : AT_SYMLINK_NOFOLLOW));
}

/* ------------------------------------------------------------------------------------------------ directories --- */

typedef struct text {
    char *bytes;
    size_t count, room;
} text;

static int64_t add(text *to, const void *bytes, size_t count)
{
    if (to->room - to->count < count) {
        size_t room = to->room ? to->room * 2 : 4096;
        while (room - to->count < count)
            room *= 2;
        char *moved = realloc(to->bytes, room);
        if (!moved)
            return -ENOMEM;
        to->bytes = moved;
        to->room = room;
    }
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
    return 0;
}

static int64_t add_entry(text *to, const struct dirent *entry)
{
    char kind = (char)entry->d_type;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
        return 0;
    int64_t error = add(to, &kind, 1);
    return error ? error : add(to, entry->d_name, strlen(entry->d_name) + 1);
}

int64_t mrh_do_list(mrh_job *job)
{
    text names = {0};
    int64_t error = 0;
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (job->numbers[0] ? 0 : O_NOFOLLOW);
    int descriptor = open(job->texts[0], flags);
    DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!directory) {
        error = -errno;
        if (descriptor >= 0)
            close(descriptor);
        return error;
    }
    while (!error) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            error = -errno;
            break;
        }
        error = add_entry(&names, entry);
    }
    closedir(directory);
    if (error)
        free(names.bytes);
    else {
        job->output = names.bytes;
        job->output_bytes = names.count;
    }
    return error;
}

int64_t mrh_do_space(mrh_job *job)
{
    struct statvfs space;
    if (statvfs(job->texts[0], &space) < 0)
        return -errno;
    int64_t out[4] = {(int64_t)(space.f_blocks * space.f_frsize), (int64_t)(space.f_bavail * space.f_frsize),
                      (int64_t)space.f_files, (int64_t)space.f_ffree};
    return put_out(job, out, sizeof out);
}

/* ----------------------------------------------------------------------------------------------------- copies --- */

int64_t mrh_do_clone(mrh_job *job)
{
#ifdef FICLONE
    return outcome(ioctl((int)job->numbers[1], FICLONE, (int)job->numbers[0]));
#else
    (void)job;
    return -EOPNOTSUPP;
#endif
}

/* Copies through this thread's memory, for files between which the kernel cannot copy. */
static int64_t copy_by_hand(int from, int64_t from_offset, int to, int64_t to_offset, int64_t bytes)
{
    enum { ROOM = 256 * 1024 };
    char *buffer = malloc(ROOM);
    int64_t done = 0;
    if (!buffer)
        return -ENOMEM;
    while (done < bytes) {
        int64_t wanted = bytes - done < ROOM ? bytes - done : ROOM;
        int64_t count = AGAIN_IF_INTERRUPTED(pread(from, buffer, (size_t)wanted, from_offset + done));
        int64_t written = 0;
        while (written < count) {
            int64_t part = AGAIN_IF_INTERRUPTED(
                pwrite(to, buffer + written, (size_t)(count - written), to_offset + done + written));
            if (part < 0)
                count = part;
            else
                written += part;
        }
        if (count < 0) {
            free(buffer);
            return count;
        }
        if (count == 0)
            break;
        done += count;
    }
    free(buffer);
    return done;
}

int64_t mrh_do_copy_range(mrh_job *job)
{
    int from = (int)job->numbers[0], to = (int)job->numbers[2];
    int64_t wanted = job->numbers[4] < INT64_C(16) * MOVED_AT_ONCE ? job->numbers[4] : INT64_C(16) * MOVED_AT_ONCE;
#ifdef __linux__
    off64_t from_offset = job->numbers[1], to_offset = job->numbers[3];
    int64_t count = AGAIN_IF_INTERRUPTED(copy_file_range(from, &from_offset, to, &to_offset, (size_t)wanted, 0));
    /* 0 means the end of the file, or a file such as those in /proc, whose size is unknown. */
    if (count > 0 || (count < 0 && count != -EXDEV && count != -EINVAL && count != -EOPNOTSUPP && count != -ENOSYS))
        return count;
#endif
    return copy_by_hand(from, job->numbers[1], to, job->numbers[3], wanted);
}

int64_t mrh_do_splice_from(mrh_job *job)
{
#ifdef SPLICE_F_NONBLOCK
    off64_t offset = job->numbers[1];
    return AGAIN_IF_INTERRUPTED(
        splice(descriptor_of(job), &offset, (int)job->numbers[2], NULL, (size_t)job->numbers[3], SPLICE_F_NONBLOCK));
#else
    (void)job;
    return -EOPNOTSUPP;
#endif
}

int64_t mrh_do_splice_to(mrh_job *job)
{
#ifdef SPLICE_F_NONBLOCK
    off64_t offset = job->numbers[1];
    return AGAIN_IF_INTERRUPTED(
        splice((int)job->numbers[2], NULL, descriptor_of(job), &offset, (size_t)job->numbers[3], SPLICE_F_NONBLOCK));
#else
    (void)job;
    return -EOPNOTSUPP;
#endif
}

/* ----------------------------------------------------------------------------------------- calls that do not wait --- */

int64_t mrh_read_at_once(int descriptor, void *buffer, uint64_t bytes, int64_t offset)
{
#ifdef RWF_NOWAIT
    struct iovec whole = {buffer, bytes};
    ssize_t count = preadv2(descriptor, &whole, 1, offset, RWF_NOWAIT);
    if (count >= 0)
        return count;
    return errno == EOPNOTSUPP || errno == EINTR || errno == ENOSYS ? -EAGAIN : -errno;
#else
    (void)descriptor, (void)buffer, (void)bytes, (void)offset;
    return -EAGAIN;
#endif
}

#ifdef F_OFD_SETLK
static int set_lock(int descriptor, short type, int64_t offset, int64_t bytes)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = bytes};
    if (fcntl(descriptor, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

int mrh_try_lock(int descriptor, int is_exclusive, int64_t offset, int64_t bytes)
{
    return set_lock(descriptor, (short)(is_exclusive ? F_WRLCK : F_RDLCK), offset, bytes);
}

int mrh_unlock(int descriptor, int64_t offset, int64_t bytes)
{
    return set_lock(descriptor, F_UNLCK, offset, bytes);
}
#else
int mrh_try_lock(int descriptor, int is_exclusive, int64_t offset, int64_t bytes)
{
    (void)descriptor, (void)is_exclusive, (void)offset, (void)bytes;
    return -EOPNOTSUPP;
}

int mrh_unlock(int descriptor, int64_t offset, int64_t bytes)
{
    (void)descriptor, (void)offset, (void)bytes;
    return -EOPNOTSUPP;
}
#endif
