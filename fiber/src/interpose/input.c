/*
 * input.c: reading from streams. libc's functions call its own read internally, which cannot be interposed.
 *
 * The functions here fill a stream's buffer as libc does (fileops.c, _IO_new_file_underflow), but by our read, which
 * parks. Functions that take bytes from the buffer loop over it. Some streams are left to libc: those that cannot be
 * read, streams of wide characters, streams without a descriptor, and streams opened with "m", whose buffer may be
 * the mapped file.
 */
#include "blocking.h"
#include "libc.h"
#include "stream.h"

#include <string.h>
#include <wchar.h>

MF_ALWAYS_LINKED(input);

/* ------------------------------------------------------------------------------------------------------ filling --- */

static size_t buffered_bytes(const FILE *stream)
{
    return (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
}

static bool is_plainly_read(FILE *stream)
{
    return !(stream->_flags & MF_STREAM_NO_READS) && !(stream->_flags2 & MF_STREAM_MAPS) && fwide(stream, -1) < 0 &&
           mf_stream_descriptor(stream) >= 0;
}

/* Leaves the bytes that ungetc pushed back, which have all been read, and continues with the saved bytes after them. A
 * stream that had no buffer yet has saved none. */
static void leave_pushed_back(FILE *stream)
{
    if (stream->_IO_save_base || (stream->_flags & MF_STREAM_IN_BACKUP))
        _IO_free_backup_area(stream); /* switches back to the buffer first */
}

/* Writes pending output before reading. */
static bool end_writing(FILE *stream)
{
    if (!(stream->_flags & MF_STREAM_CURRENTLY_PUTTING))
        return true;
    return mf_stream_write_out(stream) && _IO_switch_to_get_mode(stream) != EOF;
}

/* Reads once. At the end of the file or after an error it sets the stream's flag and returns 0. Changes errno only if
 * read fails. */
static size_t read_descriptor(FILE *stream, char *to, size_t size)
{
    int before = errno;
    ssize_t count = read(mf_stream_descriptor(stream), to, size);
    if (count >= 0)
        errno = before;
    if (count > 0) {
        if (stream->_offset >= 0)
            stream->_offset += count;
        return (size_t)count;
    }
    stream->_flags |= count == 0 ? _IO_EOF_SEEN : _IO_ERR_SEEN;
    if (count == 0)
        stream->_offset = -1; /* as libc does: others may append to the file */
    return 0;
}

/* Allocates a buffer, and also finds out whether the stream is a terminal's. */
static void have_buffer(FILE *stream)
{
    if (!stream->_IO_buf_base)
        _IO_doallocbuf(stream);
}

static void empty_buffer(FILE *stream)
{
    stream->_IO_read_base = stream->_IO_read_ptr = stream->_IO_read_end = stream->_IO_buf_base;
    stream->_IO_write_base = stream->_IO_write_ptr = stream->_IO_write_end = stream->_IO_buf_base;
}

/* Flushes a prompt on stdout before reading the answer. */
static void show_output(const FILE *stream)
{
    int shown_soon = MF_STREAM_LINE_BUFFERED | MF_STREAM_UNBUFFERED;
    if ((stream->_flags & shown_soon) && (stdout->_flags & shown_soon))
        fflush(stdout);
}

/* Does the steps in libc's order (genops.c, __underflow). */
static bool fill_plainly(FILE *stream)
{
    if (!end_writing(stream))
        return false;
    leave_pushed_back(stream);
    if (buffered_bytes(stream))
        return true;
    if (stream->_flags & _IO_EOF_SEEN)
        return false;
    have_buffer(stream);
    show_output(stream);
    empty_buffer(stream);
    stream->_IO_read_end +=
        read_descriptor(stream, stream->_IO_buf_base, (size_t)(stream->_IO_buf_end - stream->_IO_buf_base));
    return buffered_bytes(stream) > 0;
}

/* Makes sure that the buffer holds bytes. Returns false at the end or after an error. */
static bool fill(FILE *stream)
{
    if (buffered_bytes(stream))
        return true;
    return is_plainly_read(stream) ? fill_plainly(stream) : LIBC(__underflow)(stream) != EOF;
}

/* Macros that read the buffer directly call these functions when it is empty. The caller must hold the lock. */
int __underflow(FILE *stream)
{
    if (!mf_current)
        return LIBC(__underflow)(stream);
    return fill(stream) ? (unsigned char)*stream->_IO_read_ptr : EOF;
}

int __uflow(FILE *stream)
{
    if (!mf_current)
        return LIBC(__uflow)(stream);
    return fill(stream) ? (unsigned char)*stream->_IO_read_ptr++ : EOF;
}

/* Copies up to `size` bytes from the buffer, up to and including the delimiter (EOF: none). */
static size_t take(FILE *stream, char *to, size_t size, int delimiter)
{
    size_t count = buffered_bytes(stream) < size ? buffered_bytes(stream) : size;
    char *found = delimiter == EOF ? NULL : memchr(stream->_IO_read_ptr, delimiter, count);
    if (found)
        count = (size_t)(found - stream->_IO_read_ptr) + 1;
    memcpy(to, stream->_IO_read_ptr, count);
    stream->_IO_read_ptr += count;
    return count;
}

/* ------------------------------------------------------------------------------------------------------- blocks --- */

/* The number of bytes to read directly to the caller, bypassing the buffer, as libc does: whole buffers, or any size if
 * there is no real buffer. Returns 0 if the buffer must be used. */
static size_t direct_bytes(FILE *stream, size_t wanted)
{
    size_t buffer_size = (size_t)(stream->_IO_buf_end - stream->_IO_buf_base);
    int others = MF_STREAM_IN_BACKUP | MF_STREAM_CURRENTLY_PUTTING;
    bool is_emptied = !buffered_bytes(stream) && !(stream->_flags & others);
    if (!is_plainly_read(stream) || !is_emptied || wanted < buffer_size || !buffer_size)
        return 0;
    return buffer_size >= 128 ? wanted - wanted % buffer_size : wanted;
}

static size_t read_block(FILE *stream, char *to, size_t wanted)
{
    size_t done = 0, direct, count = 1;
    have_buffer(stream);
    while (done < wanted && count) {
        direct = direct_bytes(stream, wanted - done);
        if (direct) {
            empty_buffer(stream);
            count = read_descriptor(stream, to + done, direct);
        } else {
            count = fill(stream) ? take(stream, to + done, wanted - done, EOF) : 0;
        }
        done += count;
    }
    return done;
}

size_t fread(void *restrict buffer, size_t size, size_t count, FILE *restrict stream)
{
    mf_stream_user own;
    size_t wanted;
    if (!mf_current || !size || !count || __builtin_mul_overflow(size, count, &wanted))
        return LIBC(fread)(buffer, size, count, stream);
    mf_stream_lock(stream, &own);
    size_t done = read_block(stream, buffer, wanted);
    mf_stream_unlock(stream, &own);
    return done / size;
}

ALIAS(fread_unlocked, fread);

/* libc aborts the program if the buffer is too small. */
size_t __fread_chk(void *restrict buffer, size_t buffer_size, size_t size, size_t count, FILE *restrict stream)
{
    size_t wanted;
    if (__builtin_mul_overflow(size, count, &wanted) || wanted > buffer_size)
        return LIBC(__fread_chk)(buffer, buffer_size, size, count, stream);
    return fread(buffer, size, count, stream);
}

ALIAS(__fread_unlocked_chk, __fread_chk);

int getw(FILE *stream)
{
    int word;
    return fread(&word, sizeof word, 1, stream) == 1 ? word : EOF;
}

/* -------------------------------------------------------------------------------------------------- characters --- */

int fgetc(FILE *stream)
{
    if (!mf_current)
        return LIBC(fgetc)(stream);
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    int character = fill(stream) ? (unsigned char)*stream->_IO_read_ptr++ : EOF;
    mf_stream_unlock(stream, &own);
    return character;
}

ALIAS(getc, fgetc);
ALIAS(_IO_getc, fgetc);
ALIAS(fgetc_unlocked, fgetc);
ALIAS(getc_unlocked, fgetc);

int getchar(void)
{
    return fgetc(stdin);
}

ALIAS(getchar_unlocked, getchar);

/* ------------------------------------------------------------------------------------------------------- lines --- */

/* As in libc, an error other than EAGAIN in this call discards the bytes that were read. */
static bool is_line(FILE *stream, size_t length)
{
    return length && !(ferror_unlocked(stream) && errno != EAGAIN);
}

static bool read_line(FILE *stream, char *line, size_t capacity)
{
    size_t length = 0;
    int old_error = stream->_flags & _IO_ERR_SEEN;
    stream->_flags &= ~_IO_ERR_SEEN;
    while (length < capacity && (!length || line[length - 1] != '\n') && fill(stream))
        length += take(stream, line + length, capacity - length, '\n');
    bool whole = is_line(stream, length);
    if (whole)
        line[length] = 0;
    stream->_flags |= old_error;
    return whole;
}

char *fgets(char *restrict line, int size, FILE *restrict stream)
{
    if (!mf_current || size <= 1)
        return LIBC(fgets)(line, size, stream);
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    bool whole = read_line(stream, line, (size_t)size - 1);
    mf_stream_unlock(stream, &own);
    return whole ? line : NULL;
}

ALIAS(fgets_unlocked, fgets);

char *__fgets_chk(char *restrict line, size_t line_size, int size, FILE *restrict stream)
{
    if (size < 0 || (size_t)size > line_size)
        return LIBC(__fgets_chk)(line, line_size, size, stream);
    return fgets(line, size, stream);
}

ALIAS(__fgets_unlocked_chk, __fgets_chk);

/* Makes the line large enough for `length` bytes and a 0. */
static bool reserve_line(char **line, size_t *size, size_t length)
{
    if (*line && *size > length)
        return true;
    size_t larger = length + 1 > 2 * *size ? length + 1 : 2 * *size;
    larger = larger < 120 ? 120 : larger;
    char *moved = realloc(*line, larger);
    if (!moved)
        return false;
    *line = moved;
    *size = larger;
    return true;
}

/* As in libc, a buffer of size 0 counts as no buffer, whatever its address. A buffer is allocated even if nothing is
 * read. */
static bool begin_line(char **line, size_t *size)
{
    if (!*line || !*size) {
        *line = NULL;
        *size = 0;
    }
    return reserve_line(line, size, 0);
}

static ssize_t read_delimited(char **line, size_t *size, int delimiter, FILE *stream)
{
    size_t length = 0;
    if (!begin_line(line, size))
        return mf_fail(-ENOMEM);
    while ((!length || (unsigned char)(*line)[length - 1] != delimiter) && fill(stream)) {
        if (!reserve_line(line, size, length + buffered_bytes(stream)))
            return mf_fail(-ENOMEM);
        length += take(stream, *line + length, buffered_bytes(stream), delimiter);
        (*line)[length] = 0;
    }
    return length ? (ssize_t)length : -1;
}

ssize_t getdelim(char **restrict line, size_t *restrict size, int delimiter, FILE *restrict stream)
{
    if (!mf_current || !line || !size)
        return LIBC(getdelim)(line, size, delimiter, stream);
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    ssize_t length = read_delimited(line, size, (unsigned char)delimiter, stream);
    mf_stream_unlock(stream, &own);
    return length;
}

ALIAS(__getdelim, getdelim);

ssize_t getline(char **restrict line, size_t *restrict size, FILE *restrict stream)
{
    return getdelim(line, size, '\n', stream);
}
