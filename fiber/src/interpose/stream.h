/*
 * stream.h: what reading and writing stdio's streams have in common.
 *
 * As in libc a stream stays locked while whoever uses it waits. libc knows the owner by its thread, which another fiber
 * of the carrier is too; the table of users tells them apart.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_STREAM_H
#define MILLRACE_FIBER_INTERPOSE_STREAM_H

#include "../carrier.h"

#include <stdbool.h>
#include <stdio.h>

/* libio.h and libioP.h no longer come with glibc; these are part of what old programs were compiled with. */
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

/* -1 of a stream that has none: of memory, or made by fopencookie. Unlike fileno, it leaves errno as it is then. */
static inline int mf_stream_descriptor(const FILE *stream)
{
    return stream->_flags & MF_STREAM_IS_FILE ? stream->_fileno : -1;
}

typedef struct mf_stream_user {
    struct mf_stream_user *next;
    const FILE *stream;
    const mr_fiber *fiber;     /* may have ended without giving up what flockfile gave it */
    const mf_carrier *carrier; /* the fiber's */
    bool is_programs;          /* by flockfile, until funlockfile */
} mf_stream_user;

/* On fibers. The record belongs to the stream from one to the other. Nothing is locked of a stream that its users lock
 * (fsetlocking, and libc's own streams of snprintf, which have no lock). */
void mf_stream_lock(FILE *stream, mf_stream_user *own);
void mf_stream_unlock(FILE *stream, mf_stream_user *own);

/* A try of the first, which waits a millisecond before the next one. */
bool mf_stream_try_lock(FILE *stream, mf_stream_user *own);

/* Has the running fiber locked it by flockfile? Then no helper thread can use it. */
bool mf_stream_is_held(const FILE *stream);

/* Takes all those locks back: the stream is about to be closed. */
void mf_stream_let_go(FILE *stream);

/* Drops the records of those locks, but does not touch the stream: a freopen has failed, and since glibc 2.41 the stream no
 * longer exists then. A record that stayed would belong to the next stream at that address. */
void mf_stream_forget(const FILE *stream);

/* output.c: writes what was put into a locked stream, so that libc has nothing left to write. False after an error. */
bool mf_stream_write_out(FILE *stream);

/* flush.c: the same for one that is not locked, before it is closed. What a broken pipe causes must meet the fiber, and no
 * helper thread. */
bool mf_stream_end_writing(FILE *stream);

#endif
