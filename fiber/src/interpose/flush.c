/*
 * flush.c: flushes the buffers of one stream, of all streams, and of a stream that is closed.
 *
 * libc flushes all streams while it holds the lock of their list, so that no thread can open or close a stream
 * meanwhile. Here the lock is held only to copy the list. Then the streams are flushed one after the other, each with
 * its own lock.
 */
#include "../offload.h"
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "socket.h"
#include "stream.h"

MF_ALWAYS_LINKED(flush);

/* libc's list of open streams (libio.h). */
typedef FILE *list_iterator;
void _IO_list_lock(void);
void _IO_list_unlock(void);
list_iterator _IO_iter_begin(void);
list_iterator _IO_iter_end(void);
list_iterator _IO_iter_next(list_iterator);
FILE *_IO_iter_file(list_iterator);

/* ------------------------------------------------------------------------------------------------- every stream --- */

/* The list is locked. */
static size_t list_streams(FILE **streams, size_t capacity)
{
    size_t count = 0;
    for (list_iterator each = _IO_iter_begin(); each != _IO_iter_end(); each = _IO_iter_next(each), count++)
        if (count < capacity)
            streams[count] = _IO_iter_file(each);
    return count;
}

/* The list is locked. */
static bool is_listed(const FILE *stream)
{
    for (list_iterator each = _IO_iter_begin(); each != _IO_iter_end(); each = _IO_iter_next(each))
        if (_IO_iter_file(each) == stream)
            return true;
    return false;
}

/* The open streams, ending with NULL. The caller frees the array. Returns NULL if there is no memory. */
static FILE **open_streams(void)
{
    _IO_list_lock();
    size_t count = list_streams(NULL, 0);
    FILE **streams = calloc(count + 1, sizeof *streams);
    if (streams)
        list_streams(streams, count);
    _IO_list_unlock();
    return streams;
}

/* Returns false if the stream has been closed. Like libc, it waits for a stream that is in use. */
static bool lock_if_open(FILE *stream, mf_stream_user *own)
{
    for (;;) {
        _IO_list_lock();
        bool is_open = is_listed(stream);
        bool is_locked = is_open && mf_stream_try_lock(stream, own);
        _IO_list_unlock();
        if (is_locked || !is_open)
            return is_locked;
        mf_wait_a_millisecond();
    }
}

/* True for output that only libc can flush: of wide characters, or of a stream without a descriptor. */
static bool has_output_for_libc(const FILE *stream)
{
    return stream->_mode > 0 ? stream->_flags & MF_STREAM_CURRENTLY_PUTTING
                             : stream->_IO_write_ptr > stream->_IO_write_base;
}

static bool flush_if_open(FILE *stream)
{
    mf_stream_user own;
    if (!lock_if_open(stream, &own))
        return true;
    bool flushed = mf_stream_write_out(stream);
    if (flushed && has_output_for_libc(stream))
        flushed = LIBC(__overflow)(stream, EOF) != EOF;
    mf_stream_unlock(stream, &own);
    return flushed;
}

static int flush_all(void)
{
    int result = 0;
    FILE **streams = open_streams();
    if (!streams)
        return LIBC(fflush)(NULL);
    for (FILE **each = streams; *each; each++)
        if (!flush_if_open(*each))
            result = EOF;
    free(streams);
    return result;
}

/* --------------------------------------------------------------------------------------------------- one stream --- */

static int flush_one(FILE *stream)
{
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    int result = mf_stream_write_out(stream) ? LIBC(fflush)(stream) : EOF; /* libc's part writes nothing */
    mf_stream_unlock(stream, &own);
    return result;
}

int fflush(FILE *stream)
{
    if (!mf_current)
        return LIBC(fflush)(stream);
    return stream ? flush_one(stream) : flush_all();
}

ALIAS(fflush_unlocked, fflush);

/* Does not call fflush, which would also drop bytes that were read ahead. */
bool mf_stream_end_writing(FILE *stream)
{
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    bool written = mf_stream_write_out(stream);
    mf_stream_unlock(stream, &own);
    return written;
}

typedef struct helper_call {
    FILE *stream;
    int result;
} helper_call;

static void run_fclose(void *argument)
{
    helper_call *e = argument;
    e->result = LIBC(fclose)(e->stream);
}

static int close_stream(FILE *stream, int descriptor)
{
    helper_call e = {.stream = stream};
    if (!mf_current || descriptor < 0 || !mf_may_linger(descriptor))
        return LIBC(fclose)(stream);
    mf_offload_to_new_thread(run_fclose, &e);
    return e.result;
}

int fclose(FILE *stream)
{
    if (mf_current)
        mf_stream_release_user_locks(stream);
    bool flushed = !mf_current || mf_stream_end_writing(stream);
    int error = errno, descriptor = mf_stream_descriptor(stream);
    if (descriptor >= 0)
        mf_watch_note_close(descriptor, descriptor);
    int result = close_stream(stream, descriptor);
    if (descriptor >= 0)
        mf_watch_note_closed(descriptor, descriptor);
    if (flushed)
        return result;
    errno = error;
    return EOF;
}
