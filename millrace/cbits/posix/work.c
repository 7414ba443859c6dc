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
#include <sys/syscall.h>
#endif

enum { BYTES_PER_JOB = 1 << 20 }; /* a file's deadline is checked between two jobs */

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

/* Makes a copy of these bytes the output. */
static int64_t set_output(mrh_job *job, const void *bytes, size_t count)
{
    job->output = malloc(count ? count : 1);
    if (!job->output)
        return -ENOMEM;
    memcpy(job->output, bytes, count);
    job->output_bytes = count;
    return 0;
}

/* Opens with O_NONBLOCK first, because opening a FIFO would wait for its other end. If another process has a lease on
 * the file (fcntl(2)), that fails with EWOULDBLOCK. Only regular files have leases, so the second open waits only for
 * the lease. */
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

/* Announces the whole range first, so that the system reads it at once, and then waits for its parts. */
int64_t mrh_do_load_into_cache(mrh_job *job)
{
    char bytes[1 << 16];
    int64_t offset = job->numbers[1], wanted = job->numbers[2] < BYTES_PER_JOB ? job->numbers[2] : BYTES_PER_JOB,
            done = 0;
#ifdef POSIX_FADV_WILLNEED
    posix_fadvise(descriptor_of(job), offset, wanted, POSIX_FADV_WILLNEED);
#endif
    while (done < wanted) {
        size_t size = (size_t)(wanted - done) < sizeof bytes ? (size_t)(wanted - done) : sizeof bytes;
        int64_t count = AGAIN_IF_INTERRUPTED(pread(descriptor_of(job), bytes, size, offset + done));
        if (count < 0)
            return count;
        if (count == 0)
            break;
        done += count;
    }
    return done;
}

/* Makes a write that wrote nothing an error, because repeating it would never end. */
static int64_t progress(int64_t written)
{
    return written == 0 ? -EIO : written;
}

int64_t mrh_do_write(mrh_job *job)
{
    int64_t done = 0, bytes = job->numbers[2];
    while (done < bytes) {
        int64_t part = progress(AGAIN_IF_INTERRUPTED(pwrite(descriptor_of(job), (const char *)job->memory + done,
                                                            (size_t)(bytes - done), job->numbers[1] + done)));
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
        int64_t part = progress(
            AGAIN_IF_INTERRUPTED(write(descriptor_of(job), (const char *)job->memory + done, (size_t)(bytes - done))));
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
        int64_t part =
            progress(AGAIN_IF_INTERRUPTED(pwritev(descriptor_of(job), vector, count, job->numbers[1] + done)));
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
    return set_output(job, &out, sizeof out);
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
    return count < 0 ? -errno : set_output(job, content, (size_t)count);
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

size_t mrh_put_name(char *to, uint8_t kind, const char *name)
{
    size_t bytes = strlen(name);
    mrh_name_head head = {kind, (uint8_t)bytes, (uint8_t)(bytes >> 8)};
    memmove(to + sizeof head, name, bytes);
    memcpy(to, &head, sizeof head);
    return sizeof head + bytes;
}

#ifdef __linux__
enum { LEAST_FREE_BYTES = MRH_BATCH_BYTES / 4 }; /* with less, another call would return too few names */

/* Some file systems do not return the kind together with the name. */
static uint8_t kind_of(int directory, const struct dirent64 *entry)
{
    struct stat status;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    return fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : IFTODT(status.st_mode);
}

/* Converts the kernel's records at `from` to those of a batch at `to`. These are smaller, so both may begin at the same
 * address. */
static size_t put_names(int directory, char *to, const char *from, size_t bytes, int64_t *position)
{
    const char *begin = to;
    for (const char *end = from + bytes; from < end;) {
        const struct dirent64 *entry =
            (const struct dirent64 *)from; /* NOLINT(clang-diagnostic-cast-align): it is aligned */
        from += entry->d_reclen;
        *position = entry->d_off;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            to += mrh_put_name(to, kind_of(directory, entry), entry->d_name);
    }
    return (size_t)(to - begin);
}

/* Returns 0 at the end of the directory, otherwise 1. A small directory is read to its end. */
static int64_t read_batch(mrh_job *job, int directory)
{
    mrh_batch *batch = malloc(sizeof *batch + MRH_BATCH_BYTES);
    size_t used = 0, begin = 0;
    int64_t count = 1;
    if (!batch)
        return -ENOMEM;
    job->output = batch;
    batch->position = 0;
    while (count > 0 && MRH_BATCH_BYTES - begin >= LEAST_FREE_BYTES) {
        count = AGAIN_IF_INTERRUPTED(syscall(SYS_getdents64, directory, batch->names + begin, MRH_BATCH_BYTES - begin));
        if (count > 0)
            used += put_names(directory, batch->names + used, batch->names + begin, (size_t)count, &batch->position);
        begin = (used + 7) & ~(size_t)7; /* the kernel's records are aligned */
    }
    job->output_bytes = sizeof *batch + used;
    /* Nothing is in a directory that was removed. */
    return count == -ENOENT ? 0 : count < 0 ? count : count > 0;
}

int64_t mrh_do_list(mrh_job *job)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (job->numbers[0] ? 0 : O_NOFOLLOW);
    int directory = open(job->texts[0], flags);
    if (directory < 0)
        return -errno;
    int64_t result = read_batch(job, directory);
    if (result > 0)
        return directory;
    close(directory);
    return result < 0 ? result : MRH_LISTED_ALL;
}

/* Seeks back if an earlier job has read names that did not reach the program. */
int64_t mrh_do_list_more(mrh_job *job)
{
    int directory = descriptor_of(job);
    off_t position = job->numbers[1];
    if (lseek(directory, 0, SEEK_CUR) != position && lseek(directory, position, SEEK_SET) < 0)
        return -errno;
    return read_batch(job, directory);
}
#else
int64_t mrh_do_list(mrh_job *job)
{
    (void)job;
    return -EOPNOTSUPP;
}

int64_t mrh_do_list_more(mrh_job *job)
{
    (void)job;
    return -EOPNOTSUPP;
}
#endif

int64_t mrh_do_disk_space(mrh_job *job)
{
    struct statvfs space;
    if (statvfs(job->texts[0], &space) < 0)
        return -errno;
    int64_t out[4] = {(int64_t)(space.f_blocks * space.f_frsize), (int64_t)(space.f_bavail * space.f_frsize),
                      (int64_t)space.f_files, (int64_t)space.f_ffree};
    return set_output(job, out, sizeof out);
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

/* Copies through a buffer, for files between which the kernel cannot copy. */
static int64_t copy_through_buffer(int from, int64_t from_offset, int to, int64_t to_offset, int64_t bytes)
{
    enum { BUFFER_BYTES = 256 * 1024 };
    char *buffer = malloc(BUFFER_BYTES);
    int64_t done = 0;
    if (!buffer)
        return -ENOMEM;
    while (done < bytes) {
        int64_t wanted = bytes - done < BUFFER_BYTES ? bytes - done : BUFFER_BYTES;
        int64_t count = AGAIN_IF_INTERRUPTED(pread(from, buffer, (size_t)wanted, from_offset + done));
        int64_t written = 0;
        while (written < count) {
            int64_t part = progress(AGAIN_IF_INTERRUPTED(
                pwrite(to, buffer + written, (size_t)(count - written), to_offset + done + written)));
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
    int64_t wanted = job->numbers[4] < INT64_C(16) * BYTES_PER_JOB ? job->numbers[4] : INT64_C(16) * BYTES_PER_JOB;
#ifdef __linux__
    off64_t from_offset = job->numbers[1], to_offset = job->numbers[3];
    int64_t count = AGAIN_IF_INTERRUPTED(copy_file_range(from, &from_offset, to, &to_offset, (size_t)wanted, 0));
    /* 0 means the end of the file, or a file such as those in /proc, whose size is unknown. */
    if (count > 0 || (count < 0 && count != -EXDEV && count != -EINVAL && count != -EOPNOTSUPP && count != -ENOSYS))
        return count;
#endif
    return copy_through_buffer(from, job->numbers[1], to, job->numbers[3], wanted);
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

/* --------------------------------------------------------------------------------------- calls that do not wait --- */

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
