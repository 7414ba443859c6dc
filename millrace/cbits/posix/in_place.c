/* in_place.c: see in_place.h. */
#include "in_place.h"

#if defined(__linux__) && __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif

#include <errno.h>

#ifdef RESOLVE_CACHED
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------- file systems --- */

enum { FILE_SYSTEMS = 64 }; /* others are always left to helpers */

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U /* Linux 6.8 */
#endif

/* Each is 0, or identity_of() * 2, plus 1 if it answers from memory. */
static _Atomic uint64_t file_systems[FILE_SYSTEMS];

/* Before Linux 6.8 this is the device, whose number a later file system may get. Then an answer may wait for another
 * program, but it is not wrong. */
static uint64_t identity_of(const struct statx *status)
{
    return status->stx_mask & STATX_MNT_ID_UNIQUE ? status->stx_mnt_id
                                                  : makedev(status->stx_dev_major, status->stx_dev_minor);
}

static bool answers_from_memory(long type)
{
    static const long types[] = {
        0xEF53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683E, /* btrfs */
        0xF2F52010, /* f2fs */
        0xCA451A4E, /* bcachefs */
        0x794C7630, /* overlayfs */
        0x01021994, /* tmpfs */
        0x858458F6, /* ramfs */
        0x73717368, /* squashfs */
        0xE0F5E1E2, /* erofs */
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((type & 0xFFFFFFFF) == types[i])
            return true;
    return false;
}

/* The file system's entry, or 0 if there is none. */
static uint64_t entry_of(uint64_t identity)
{
    for (int i = 0; i < FILE_SYSTEMS; i++) {
        uint64_t entry = atomic_load_explicit(&file_systems[i], memory_order_relaxed);
        if (!entry || entry / 2 == identity)
            return entry;
    }
    return 0;
}

static bool get_status(int descriptor, struct statx *status)
{
    return statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE, status) ==
           0;
}

void mrh_note_file_system(int descriptor)
{
    struct statx status;
    struct statfs file_system;
    if (!get_status(descriptor, &status) || entry_of(identity_of(&status)) || fstatfs(descriptor, &file_system) < 0)
        return;
    uint64_t entry = identity_of(&status) * 2 + answers_from_memory((long)file_system.f_type);
    for (int i = 0; i < FILE_SYSTEMS; i++) {
        uint64_t before = 0;
        if (atomic_compare_exchange_strong(&file_systems[i], &before, entry) || before == entry)
            return;
    }
}

/* --------------------------------------------------------------------------------------------------------- jobs --- */

/* Returns a descriptor, the negative errno of a name that cannot be opened, or -EAGAIN: only a helper can tell. */
static int open_cached(const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC), .resolve = RESOLVE_CACHED};
    int descriptor = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (descriptor >= 0)
        return descriptor;
    bool is_answer = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG;
    return is_answer ? -errno : -EAGAIN;
}

static bool get_status_from_memory(int descriptor, struct statx *status)
{
    return get_status(descriptor, status) && (entry_of(identity_of(status)) & 1);
}

/* close(2) of glibc is a point of cancellation, which costs more. */
static void close_now(int descriptor)
{
    syscall(SYS_close, descriptor);
}

/* All of these return the work's result, or -EAGAIN. */

static int64_t get_status_of(int descriptor, mrh_status *to)
{
    struct statx status;
    if (!get_status_from_memory(descriptor, &status))
        return -EAGAIN;
    *to = (mrh_status){
        .device = (int64_t)makedev(status.stx_dev_major, status.stx_dev_minor),
        .inode = (int64_t)status.stx_ino,
        .mode = status.stx_mode,
        .links = status.stx_nlink,
        .user = status.stx_uid,
        .group = status.stx_gid,
        .size = (int64_t)status.stx_size,
        .blocks_512 = (int64_t)status.stx_blocks,
        .block_bytes = status.stx_blksize,
        .accessed_s = status.stx_atime.tv_sec,
        .accessed_ns = status.stx_atime.tv_nsec,
        .modified_s = status.stx_mtime.tv_sec,
        .modified_ns = status.stx_mtime.tv_nsec,
        .changed_s = status.stx_ctime.tv_sec,
        .changed_ns = status.stx_ctime.tv_nsec,
    };
    return 0;
}

static int64_t get_status_of_path(const char *path, bool follows, mrh_status *to)
{
    int descriptor = open_cached(path, O_PATH | (follows ? 0 : O_NOFOLLOW));
    if (descriptor < 0)
        return descriptor;
    int64_t result = get_status_of(descriptor, to);
    close_now(descriptor);
    return result;
}

/* Needs no status, so this works on every file system that says how long its names are valid. */
static int64_t check_existence(const char *path)
{
    int descriptor = open_cached(path, O_PATH);
    if (descriptor < 0)
        return descriptor;
    close_now(descriptor);
    return 0;
}

/* Opening may already ask a server or another program, so the kind of the file and of its file system come first. Only
 * for reading: other openings change something on the disk, or may. */
static int64_t open_for_reading(const char *path, int flags)
{
    struct statx status;
    if (flags & ~(O_NOFOLLOW | O_DIRECTORY))
        return -EAGAIN;
    int descriptor = open_cached(path, O_PATH | flags);
    if (descriptor < 0)
        return descriptor;
    bool answers =
        get_status_from_memory(descriptor, &status) && (S_ISREG(status.stx_mode) || S_ISDIR(status.stx_mode));
    close_now(descriptor);
    if (!answers)
        return -EAGAIN;
    descriptor = open_cached(path, flags | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return descriptor;
    /* The name may mean another file now. Without flags sync_file_range(2) does nothing, but fails for a file that has
     * no offsets, as a FIFO. */
    if (sync_file_range(descriptor, 0, 0, 0) == 0 && fcntl(descriptor, F_SETFL, flags) == 0)
        return descriptor;
    close_now(descriptor);
    return -EAGAIN;
}

int64_t mrh_do_in_place(mrh_work *work, const char *text, size_t bytes, int64_t number, mrh_status *status)
{
    char path[PATH_MAX];
    if (bytes >= sizeof path)
        return -EAGAIN;
    memcpy(path, text, bytes);
    path[bytes] = 0;
    return work == mrh_do_status      ? get_status_of_path(path, number, status)
           : work == mrh_do_exists    ? check_existence(path)
           : work == mrh_do_status_of ? get_status_of((int)number, status)
           : work == mrh_do_open      ? open_for_reading(path, (int)number)
                                      : -EAGAIN;
}
#else
int64_t mrh_do_in_place(mrh_work *work, const char *text, size_t bytes, int64_t number, mrh_status *status)
{
    (void)work, (void)text, (void)bytes, (void)number, (void)status;
    return -EAGAIN;
}

void mrh_note_file_system(int descriptor)
{
    (void)descriptor;
}
#endif
