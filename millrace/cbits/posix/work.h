/*
 * work.h: jobs of helper threads (pool.h) on files and directories. Each function is an mrh_work. Its comment lists the
 * job's texts, then its numbers, in order. It returns 0, a count, a descriptor or a negative errno. Must not know: GHC,
 * loops.
 */
#ifndef MILLRACE_WORK_H
#define MILLRACE_WORK_H

#include "pool.h"

mrh_work mrh_do_open;            /* path; flags, permissions */
mrh_work mrh_do_open_temporary;  /* directory; permissions: a file without a name */
mrh_work mrh_do_read;            /* descriptor, offset, bytes; into the memory */
mrh_work mrh_do_load_into_cache; /* descriptor, offset, bytes: into the system's cache */
mrh_work mrh_do_write;           /* descriptor, offset, bytes; from the memory, all of it */
mrh_work mrh_do_append;          /* descriptor, bytes; from the memory, all of it, at the file's position */
mrh_work mrh_do_read_vector;     /* descriptor, offset, count; the memory is an array of struct iovec */
mrh_work mrh_do_write_vector;    /* as mrh_do_read_vector, but writes; all of it */
mrh_work mrh_do_sync;            /* descriptor */
mrh_work mrh_do_sync_data;       /* descriptor */
mrh_work mrh_do_resize;          /* descriptor, size */
mrh_work mrh_do_allocate;        /* descriptor, mode, offset, bytes */
mrh_work mrh_do_status_of;       /* descriptor; output: mrh_status */
mrh_work mrh_do_status;          /* path; whether to follow a symbolic link; output: mrh_status */
mrh_work mrh_do_exists;          /* path, following symbolic links */
mrh_work mrh_do_rename;          /* from, to; flags of renameat2 */
mrh_work mrh_do_unlink;          /* path; whether it is a directory */
mrh_work mrh_do_remove_tree;     /* path; whether an earlier job has begun; MRH_ALL or MRH_MORE; fails as mrh_fail_at */
mrh_work mrh_do_mkdir;           /* path; permissions */
mrh_work mrh_do_mkfifo;          /* path; permissions */
mrh_work mrh_do_link;            /* from, to */
mrh_work mrh_do_symlink;         /* content, path */
mrh_work mrh_do_readlink;        /* path; output: the content */
mrh_work mrh_do_realpath;        /* path; output: the path */
mrh_work mrh_do_chmod;           /* path; permissions */
mrh_work mrh_do_chmod_of;        /* descriptor, permissions */
mrh_work mrh_do_chown;           /* path; user, group (-1: unchanged), whether to follow a symbolic link */
mrh_work mrh_do_set_times;       /* path; seconds and nanoseconds of access, of change, whether to follow */
mrh_work mrh_do_list; /* path; whether to follow a link, and to add the status of each name; output: mrh_batch; the open
                         directory, or MRH_LISTED_ALL */
mrh_work mrh_do_list_more;  /* descriptor, position, whether to add the status; output: mrh_batch; 0 at the end of the
                                directory, otherwise 1 */
mrh_work mrh_do_disk_space; /* path; output: total and available bytes, total and free inodes */
mrh_work mrh_do_clone;      /* from, to (descriptors): shares all blocks */
mrh_work mrh_do_copy_file; /* from, to (paths); the bytes that one job copies; output: mrh_copy; fails as mrh_fail_at */
mrh_work mrh_do_copy_range;  /* from, its offset, to, its offset, bytes */
mrh_work mrh_do_splice_from; /* file, its offset, pipe, bytes: from the file; EAGAIN if the pipe is full */
mrh_work mrh_do_splice_to;   /* file, its offset, pipe, bytes: to the file; EAGAIN if the pipe is empty */

typedef struct mrh_status {
    int64_t device, inode, mode, links, user, group, size, blocks_512, block_bytes, accessed_s, accessed_ns, modified_s,
        modified_ns, changed_s, changed_ns;
} mrh_status;

/* A copy that has begun. The job's result is MRH_ALL or the descriptors of both files, which then are open: that of the
 * source * 2^32, plus that of the copy. */
typedef struct mrh_copy {
    int64_t size, done, permissions; /* of the source; bytes copied; of the source */
} mrh_copy;

enum { MRH_ALL, MRH_MORE };

/* Names of a directory that one job has read: as many as fit. `position` is where the next names begin. Each name is an
 * mrh_name_head and the name's bytes, without NUL. If it was asked for, an mrh_status for each follows behind all
 * names, of mode 0 if the name was removed meanwhile. */
typedef struct mrh_batch {
    int64_t position, names_bytes;
    char names[];
} mrh_batch;

typedef struct mrh_name_head {
    uint8_t kind, bytes_low, bytes_high; /* kind: DT_REG, ...; DT_UNKNOWN if the file was removed or stat(2) fails */
} mrh_name_head;

enum {
    MRH_BATCH_BYTES = 64 * 1024, /* the most that the kernel returns at once: some thousand names */
    MRH_LISTED_ALL = INT32_MAX   /* instead of a descriptor: the job has read the directory to its end and closed it */
};

/* Calls `get` with each of these names, and appends what it finds to the job's output, which ends with the names.
 * Returns 0 or a negative errno. */
typedef void mrh_get_status(void *context, const char *name, mrh_status *status);
int64_t mrh_add_statuses(mrh_job *job, mrh_get_status *get, void *context);

/* Writes one name of a batch. Returns how many bytes it wrote. `name` may overlap the bytes behind the head. */
size_t mrh_put_name(char *to, uint8_t kind, const char *name);

/* For works of many steps: makes the path that an error is about the output. Returns the error. */
int64_t mrh_fail_at(mrh_job *job, int64_t error, const char *path);

/* Reads bytes that are in the system's cache, without waiting for the disk. Returns a count or a negative errno.
 * -EAGAIN: they are not in the cache, or the system cannot say. */
int64_t mrh_read_at_once(int descriptor, void *buffer, uint64_t bytes, int64_t offset);

/* Lock and unlock an open file description (fcntl(2)), without waiting. Return 0 or a negative errno (-EAGAIN: another
 * open file description has the lock). */
int mrh_try_lock(int descriptor, int is_exclusive, int64_t offset, int64_t bytes);
int mrh_unlock(int descriptor, int64_t offset, int64_t bytes);

#endif
