/*
 * work.h: what helper threads do for files and directories (pool.h). Each function is an mrh_work: it takes the numbers
 * and texts in the order of its comment, and returns a count, a descriptor or a negative errno. Must not know: GHC, loops.
 */
#ifndef MILLRACE_WORK_H
#define MILLRACE_WORK_H

#include "pool.h"

mrh_work mrh_do_open;           /* path; flags, permissions */
mrh_work mrh_do_open_temporary; /* directory; permissions: a file without a name */
mrh_work mrh_do_read;           /* descriptor, offset, bytes; into the memory */
mrh_work mrh_do_bring_in;       /* descriptor, offset, bytes: into the system's memory */
mrh_work mrh_do_write;          /* descriptor, offset, bytes; from the memory, all of it */
mrh_work mrh_do_append;         /* descriptor, bytes; from the memory, all of it, where the position is */
mrh_work mrh_do_read_vector;    /* descriptor, offset, count; the memory is an array of struct iovec */
mrh_work mrh_do_write_vector;   /* the same; all of it */
mrh_work mrh_do_sync;           /* descriptor */
mrh_work mrh_do_sync_data;      /* descriptor */
mrh_work mrh_do_resize;         /* descriptor, size */
mrh_work mrh_do_allocate;       /* descriptor, mode, offset, bytes */
mrh_work mrh_do_status_of;      /* descriptor; output: mrh_status */
mrh_work mrh_do_status;         /* path; whether to follow a symbolic link; output: mrh_status */
mrh_work mrh_do_rename;         /* from, to; flags of renameat2 */
mrh_work mrh_do_unlink;         /* path; whether it is a directory */
mrh_work mrh_do_mkdir;          /* path; permissions */
mrh_work mrh_do_mkfifo;         /* path; permissions */
mrh_work mrh_do_link;           /* from, to */
mrh_work mrh_do_symlink;        /* content, path */
mrh_work mrh_do_readlink;       /* path; output: the content */
mrh_work mrh_do_realpath;       /* path; output: the path */
mrh_work mrh_do_chmod;          /* path; permissions */
mrh_work mrh_do_chmod_of;       /* descriptor, permissions */
mrh_work mrh_do_chown;          /* path; user, group (-1: unchanged), whether to follow a symbolic link */
mrh_work mrh_do_set_times;      /* path; seconds and nanoseconds of access, of change, whether to follow */
mrh_work mrh_do_list; /* path, whether to follow a link; output: mrh_batch; the open directory, or MRH_LISTED_ALL */
mrh_work mrh_do_list_more;   /* descriptor, position; output: mrh_batch; 0 at the end of the directory, otherwise 1 */
mrh_work mrh_do_space;       /* path; output: total and available bytes, total and free inodes */
mrh_work mrh_do_clone;       /* from, to (descriptors): shares all blocks */
mrh_work mrh_do_copy_range;  /* from, its offset, to, its offset, bytes */
mrh_work mrh_do_splice_from; /* file, its offset, pipe, bytes: from the file; EAGAIN if the pipe is full */
mrh_work mrh_do_splice_to;   /* file, its offset, pipe, bytes: to the file; EAGAIN if the pipe is empty */

typedef struct mrh_status {
    int64_t device, inode, mode, links, user, group, size, blocks_512, block_bytes, accessed_s, accessed_ns, modified_s,
        modified_ns, changed_s, changed_ns;
} mrh_status;

/* Names of a directory that were read together: as many as fit. Where the next ones begin, and for each name mrh_name_head and as many
 * bytes, without NUL. */
typedef struct mrh_batch {
    int64_t position;
    char names[];
} mrh_batch;

typedef struct mrh_name_head {
    uint8_t kind, bytes_low, bytes_high; /* kind: DT_REG, ...; DT_UNKNOWN if it was removed, or if nobody may know */
} mrh_name_head;

enum {
    MRH_BATCH_BYTES = 64 * 1024, /* of names at most, as the kernel returns them: some thousand names */
    MRH_LISTED_ALL = INT32_MAX   /* instead of a descriptor: the directory was read to its end and closed */
};

/* Writes one name of a batch, and returns how many bytes that are. The name may overlap what is behind the head. */
size_t mrh_put_name(char *to, uint8_t kind, const char *name);

/* Reads bytes that the system has in memory, without waiting for the disk. -EAGAIN: not in memory, or the system cannot tell. */
int64_t mrh_read_at_once(int descriptor, void *buffer, uint64_t bytes, int64_t offset);

/* Locks of open file descriptions (fcntl(2)): 0, or a negative errno (-EAGAIN: another one has the lock). They do not wait. */
int mrh_try_lock(int descriptor, int is_exclusive, int64_t offset, int64_t bytes);
int mrh_unlock(int descriptor, int64_t offset, int64_t bytes);

#endif
