/*
 * stream.h: internals of stdio's streams, and their locks on fibers.
 *
 * As in libc, a stream stays locked while its user waits. libc identifies the owner by its OS thread, which all fibers
 * of a carrier share. The table of users tells these fibers apart.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_STREAM_H
#define MILLRACE_FIBER_INTERPOSE_STREAM_H

#include "../carrier.h"

#include <stdbool.h>
#include <stdio.h>

/* From libio.h and libioP.h, which glibc no longer installs. They cannot change: old programs have them compiled in. */
enum {
    MF_STREAM_UNBUFFERED = 0x2,
    MF_STREAM_NO_READS = 0x4,
    MF_STREAM_NO_WRITES = 0x8,
    MF_STREAM_IN_BACKUP = 0x100,
    MF_STREAM_LINE_BUFFERED = 0x200,
    MF_STREAM_CURRENTLY_PUTTING = 0x800,
    MF_STREAM_IS_APPENDING = 0x1000,
    MF_STREAM_IS_FILE = 0x2000,
    MF_STREAM_USER_LOCKS = 0x8000,
};
enum { MF_STREAM_MAPS = 0x1 }; /* in _flags2 */
void _IO_doallocbuf(FILE *);
int _IO_switch_to_get_mode(FILE *);
void _IO_free_backup_area(FILE *);

/* The stream's descriptor; -1 for a stream of memory or of fopencookie. Unlike fileno, it does not change errno. */
static inline int mf_stream_descriptor(const FILE *stream)
{
    return stream->_flags & MF_STREAM_IS_FILE ? stream->_fileno : -1;
}

typedef struct mf_stream_user {
    struct mf_stream_user *next;
    const FILE *stream;
    const mr_fiber *fiber;     /* may have ended without funlockfile */
    const mf_carrier *carrier; /* the fiber's */
    bool is_programs;          /* locked by flockfile, until funlockfile */
} mf_stream_user;

/* Lock and unlock a stream, on a fiber. Between the two calls the record belongs to the stream. A stream that its users
 * lock (fsetlocking, and libc's own streams for snprintf, which have no lock) is not locked. */
void mf_stream_lock(FILE *stream, mf_stream_user *own);
void mf_stream_unlock(FILE *stream, mf_stream_user *own);

/* Makes one attempt of mf_stream_lock, which waits a millisecond between two attempts. */
bool mf_stream_try_lock(FILE *stream, mf_stream_user *own);

/* True if the running fiber has locked the stream by flockfile. Then no helper thread can use it. */
bool mf_stream_is_held(const FILE *stream);

/* Releases all locks of flockfile that the running fiber holds, because the stream is about to be closed. */
void mf_stream_release_user_locks(FILE *stream);

/* Drops the records of those locks without touching the stream, after a failed freopen: since glibc 2.41 the stream no
 * longer exists then. Otherwise the records would belong to the next stream at that address. */
void mf_stream_forget(const FILE *stream);

/* output.c: writes the buffer of a locked stream, so that libc has nothing left to write. Returns false after an
 * error. */
bool mf_stream_write_out(FILE *stream);

/* flush.c: locks a stream and writes its buffer, before the stream is closed. The fiber itself must write, so that the
 * SIGPIPE of a broken pipe reaches it and not a helper thread. */
bool mf_stream_end_writing(FILE *stream);

#endif
