/* work.c: see work.h. */
#include "work.h"

#include "in_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
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

int64_t mrh_fail_at(mrh_job *job, int64_t error, const char *path)
{
    mrh_job_set_output(job, path, strlen(path)); /* without memory the error names the path that was asked for */
    return error;
}

static int descriptor_of(const mrh_job *job)
{
    return (int)job->numbers[0];
}

/* Ends the opening of a descriptor that was opened with these flags and O_NONBLOCK: it must be that of a file with
 * offsets, and becomes a blocking one. Returns the descriptor, or closes it and returns a negative errno. */
static int64_t check_opened(int descriptor, int flags)
{
    struct stat status;
    int error = 0;
    if (fstat(descriptor, &status) < 0)
        error = -errno; /* NOLINT(bugprone-branch-clone): the order of the checks counts */
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISBLK(status.st_mode))
        error = -ESPIPE;
    else if (fcntl(descriptor, F_SETFL, flags) < 0)
        error = -errno;
    if (error)
        close(descriptor);
    return error ? error : descriptor;
}

/* Opens with O_NONBLOCK first, because opening a FIFO would wait for its other end. If another process has a lease on
 * the file (fcntl(2)), that fails with EWOULDBLOCK. Only regular files have leases, so the second open waits only for
 * the lease. */
static int64_t open_file(const char *path, int flags, mode_t mode)
{
    flags |= O_CLOEXEC | O_NOCTTY;
    int descriptor = open(path, flags | O_NONBLOCK, mode);
    if (descriptor < 0 && errno == EWOULDBLOCK)
        descriptor = open(path, flags, mode);
    if (descriptor < 0)
        return -errno;
    mrh_note_file_system(descriptor);
    return check_opened(descriptor, flags);
}

int64_t mrh_do_open(mrh_job *job)
{
    return open_file(job->texts[0], (int)job->numbers[0], (mode_t)job->numbers[1]);
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

static mrh_status status_from(const struct stat *status)
{
    return (mrh_status){
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
}

static int64_t put_status(mrh_job *job, const struct stat *status)
{
    mrh_status out = status_from(status);
    return mrh_job_set_output(job, &out, sizeof out);
}

int64_t mrh_do_status_of(mrh_job *job)
{
    struct stat status;
    if (fstat(descriptor_of(job), &status) < 0)
        return -errno;
    mrh_note_file_system(descriptor_of(job));
    return put_status(job, &status);
}

int64_t mrh_do_status(mrh_job *job)
{
    struct stat status;
    int flags = job->numbers[0] ? 0 : AT_SYMLINK_NOFOLLOW;
    if (fstatat(AT_FDCWD, job->texts[0], &status, flags) < 0)
        return -errno;
#ifdef O_PATH
    int descriptor = open(job->texts[0], O_PATH | O_CLOEXEC | (job->numbers[0] ? 0 : O_NOFOLLOW));
    if (descriptor >= 0) {
        mrh_note_file_system(descriptor);
        close(descriptor);
    }
#endif
    return put_status(job, &status);
}

int64_t mrh_do_exists(mrh_job *job)
{
    struct stat status;
    return outcome(stat(job->texts[0], &status));
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
    return count < 0 ? -errno : mrh_job_set_output(job, content, (size_t)count);
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

static int64_t name_bytes(const char *record)
{
    mrh_name_head head;
    memcpy(&head, record, sizeof head);
    return head.bytes_low + INT64_C(256) * head.bytes_high;
}

int64_t mrh_add_statuses(mrh_job *job, mrh_get_status *get, void *context)
{
    mrh_batch *batch = job->output;
    int64_t count = 0;
    for (int64_t at = 0; at < batch->names_bytes; count++)
        at += (int64_t)sizeof(mrh_name_head) + name_bytes(batch->names + at);
    batch = realloc(batch, job->output_bytes + (size_t)count * sizeof(mrh_status));
    if (!batch)
        return -ENOMEM;
    job->output = batch;
    char name[UINT16_MAX + 1], *to = batch->names + batch->names_bytes;
    for (int64_t at = 0; at < batch->names_bytes; to += sizeof(mrh_status)) {
        mrh_status status = {0};
        int64_t bytes = name_bytes(batch->names + at);
        memcpy(name, batch->names + at + sizeof(mrh_name_head), (size_t)bytes);
        name[bytes] = 0;
        get(context, name, &status);
        memcpy(to, &status, sizeof status);
        at += (int64_t)sizeof(mrh_name_head) + bytes;
    }
    job->output_bytes += (size_t)count * sizeof(mrh_status);
    return 0;
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

static void get_status_below(void *directory, const char *name, mrh_status *status)
{
    struct stat found;
    if (fstatat(*(int *)directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0)
        *status = status_from(&found);
}

/* Returns 0 at the end of the directory, otherwise 1. A small directory is read to its end. */
static int64_t read_batch(mrh_job *job, int directory, bool with_status)
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
    batch->names_bytes = (int64_t)used;
    job->output_bytes = sizeof *batch + used;
    if (count >= 0 && with_status) {
        int64_t error = mrh_add_statuses(job, get_status_below, &directory);
        if (error)
            return error;
    }
    /* Nothing is in a directory that was removed. */
    return count == -ENOENT ? 0 : count < 0 ? count : count > 0;
}

int64_t mrh_do_list(mrh_job *job)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (job->numbers[0] ? 0 : O_NOFOLLOW);
    int directory = open(job->texts[0], flags);
    if (directory < 0)
        return -errno;
    int64_t result = read_batch(job, directory, job->numbers[1]);
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
    return read_batch(job, directory, job->numbers[2]);
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
    return mrh_job_set_output(job, out, sizeof out);
}

/* ----------------------------------------------------------------------------------------------------- copies --- */

static int64_t clone_file(int from, int to)
{
#ifdef FICLONE
    return outcome(ioctl(to, FICLONE, from));
#else
    (void)from, (void)to;
    return -EOPNOTSUPP;
#endif
}

int64_t mrh_do_clone(mrh_job *job)
{
    return clone_file((int)job->numbers[0], (int)job->numbers[1]);
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

static int64_t copy_range(int from, int64_t from_offset, int to, int64_t to_offset, int64_t bytes)
{
    int64_t wanted = bytes < INT64_C(16) * BYTES_PER_JOB ? bytes : INT64_C(16) * BYTES_PER_JOB;
#ifdef __linux__
    off64_t at_from = from_offset, at_to = to_offset;
    int64_t count = AGAIN_IF_INTERRUPTED(copy_file_range(from, &at_from, to, &at_to, (size_t)wanted, 0));
    /* 0 means the end of the file, or a file such as those in /proc, whose size is unknown. */
    if (count > 0 || (count < 0 && count != -EXDEV && count != -EINVAL && count != -EOPNOTSUPP && count != -ENOSYS))
        return count;
#endif
    return copy_through_buffer(from, from_offset, to, to_offset, wanted);
}

int64_t mrh_do_copy_range(mrh_job *job)
{
    return copy_range((int)job->numbers[0], job->numbers[1], (int)job->numbers[2], job->numbers[3], job->numbers[4]);
}

/* Copies up to this number of bytes. Returns 1 at the end of the source, 0 before, or a negative errno. */
static int64_t copy_begin(int from, int to, int64_t bytes, mrh_copy *copy)
{
    int64_t count = clone_file(from, to);
    if (count == 0)
        copy->done = copy->size;
    if (count == 0 || (count != -EOPNOTSUPP && count != -EXDEV && count != -EINVAL && count != -ENOTTY))
        return count < 0 ? count : 1;
    do {
        count = copy_range(from, copy->done, to, copy->done, bytes - copy->done);
        if (count <= 0)
            return count < 0 ? count : 1;
        copy->done += count;
    } while (copy->done < bytes);
    return 0;
}

/* Gives the copy its permissions, where the file system has any, and closes it. */
static int64_t end_copy(int to, const mrh_copy *copy)
{
    int64_t error = outcome(fchmod(to, (mode_t)copy->permissions & 0777));
    int64_t closed = outcome(close(to));
    return error && error != -EPERM && error != -EOPNOTSUPP ? error : closed;
}

int64_t mrh_do_copy_file(mrh_job *job)
{
    struct stat status;
    int64_t from = open_file(job->texts[0], O_RDONLY, 0);
    if (from < 0)
        return mrh_fail_at(job, from, job->texts[0]);
    int64_t error = fstat((int)from, &status) < 0 ? -errno : S_ISDIR(status.st_mode) ? -EISDIR : 0;
    int64_t to = error ? error : open_file(job->texts[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0) {
        close((int)from);
        return mrh_fail_at(job, to, job->texts[error ? 0 : 1]);
    }
    mrh_copy copy = {.size = status.st_size, .permissions = status.st_mode};
    int64_t ended = copy_begin((int)from, (int)to, job->numbers[0], &copy);
    if (ended != 1 && !(error = ended) && !(error = mrh_job_set_output(job, &copy, sizeof copy)))
        return from << 32 | to;
    close((int)from);
    if (ended == 1) {
        error = end_copy((int)to, &copy);
        error = error ? error : mrh_job_set_output(job, &copy, sizeof copy);
    } else
        close((int)to);
    if (!error)
        return MRH_ALL;
    unlink(job->texts[1]);
    return mrh_fail_at(job, error, job->texts[1]);
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
