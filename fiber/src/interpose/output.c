/*
 * output.c: writing to streams. libc's functions call its own write internally, which cannot be interposed.
 *
 * libc's own functions for files (fileops.c: _IO_new_file_xsputn, _IO_new_file_overflow, new_do_write) are implemented
 * here again with our write, which parks. Some streams are left to libc: those that cannot be written to, streams of
 * wide characters and streams without a descriptor. Formatted output is first formatted into memory.
 */
#include "blocking.h"
#include "libc.h"
#include "stream.h"

#include <limits.h>
#include <string.h>
#include <wchar.h>

MF_ALWAYS_LINKED(output);

/* Only buffers of at least this size are bypassed by whole blocks. */
enum { BLOCK_BUFFER_BYTES_MIN = 128 };

static bool is_plainly_written(FILE *stream)
{
    return !(stream->_flags & MF_STREAM_NO_WRITES) && fwide(stream, -1) < 0 && mf_stream_descriptor(stream) >= 0;
}

/* ----------------------------------------------------------------------------------------------------- flushing --- */

/* Writes bytes. After an error sets the stream's flag and returns less than `size`. */
static size_t write_descriptor(FILE *stream, const char *from, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = write(mf_stream_descriptor(stream), from + done, size - done);
        if (count < 0) {
            stream->_flags |= _IO_ERR_SEEN;
            break;
        }
        done += (size_t)count;
    }
    if (stream->_offset >= 0)
        stream->_offset += (off64_t)done;
    return done;
}

/* Moves the file's position back before the bytes that were read ahead. */
static bool seek_to_position(FILE *stream)
{
    if (stream->_flags & MF_STREAM_IS_APPENDING) {
        stream->_offset = -1;
        return true;
    }
    if (stream->_IO_read_end == stream->_IO_write_base)
        return true;
    off64_t position = lseek64(mf_stream_descriptor(stream), stream->_IO_write_base - stream->_IO_read_end, SEEK_CUR);
    if (position < 0)
        return false;
    stream->_offset = position;
    return true;
}

/* Writes directly to the descriptor and empties the buffer. As in libc, bytes that could not be written are lost. */
static size_t write_block(FILE *stream, const char *from, size_t size)
{
    if (!seek_to_position(stream))
        return 0;
    size_t done = write_descriptor(stream, from, size);
    bool by_line = stream->_flags & (MF_STREAM_LINE_BUFFERED | MF_STREAM_UNBUFFERED);
    stream->_IO_read_base = stream->_IO_read_ptr = stream->_IO_read_end = stream->_IO_buf_base;
    stream->_IO_write_base = stream->_IO_write_ptr = stream->_IO_buf_base;
    stream->_IO_write_end = by_line ? stream->_IO_buf_base : stream->_IO_buf_end;
    return done;
}

static size_t pending_bytes(const FILE *stream)
{
    return (size_t)(stream->_IO_write_ptr - stream->_IO_write_base);
}

static bool is_putting(const FILE *stream)
{
    return (stream->_flags & MF_STREAM_CURRENTLY_PUTTING) && stream->_IO_write_base;
}

/* Writes the buffer. A stream that was read, or not used yet, is only switched to writing, by libc. */
static bool flush(FILE *stream)
{
    if (!is_putting(stream))
        return LIBC(__overflow)(stream, EOF) != EOF;
    size_t pending = pending_bytes(stream);
    return !pending || write_block(stream, stream->_IO_write_base, pending) == pending;
}

bool mf_stream_write_out(FILE *stream)
{
    return !is_putting(stream) || !is_plainly_written(stream) || flush(stream);
}

/* ------------------------------------------------------------------------------------------------------ putting --- */

/* Stores one byte in the buffer, which is flushed first if it is full. */
static bool put_character(FILE *stream, char character)
{
    if (!is_putting(stream) && !flush(stream))
        return false;
    if (stream->_IO_write_ptr == stream->_IO_buf_end && !flush(stream))
        return false;
    *stream->_IO_write_ptr++ = character;
    bool must_flush =
        (stream->_flags & MF_STREAM_UNBUFFERED) || ((stream->_flags & MF_STREAM_LINE_BUFFERED) && character == '\n');
    return !must_flush || flush(stream);
}

static void append(FILE *stream, const char *from, size_t size)
{
    memcpy(stream->_IO_write_ptr, from, size);
    stream->_IO_write_ptr += size;
}

/* The number of bytes that go into the buffer. A line buffer with enough space takes the bytes up to the end of the
 * last line; then it must be flushed. */
static size_t fitting_bytes(const FILE *stream, const char *from, size_t size, bool *must_flush)
{
    *must_flush = false;
    size_t space =
        stream->_IO_write_end > stream->_IO_write_ptr ? (size_t)(stream->_IO_write_end - stream->_IO_write_ptr) : 0;
    if ((stream->_flags & MF_STREAM_LINE_BUFFERED) && is_putting(stream)) {
        space = (size_t)(stream->_IO_buf_end - stream->_IO_write_ptr);
        const char *last = space >= size ? memrchr(from, '\n', size) : NULL;
        if (last) {
            *must_flush = true;
            return (size_t)(last - from) + 1;
        }
    }
    return space < size ? space : size;
}

/* Puts the last bytes, less than a buffer. */
static size_t put_rest(FILE *stream, const char *from, size_t size)
{
    size_t space = (size_t)(stream->_IO_buf_end - stream->_IO_write_ptr), done = 0;
    if (!(stream->_flags & (MF_STREAM_LINE_BUFFERED | MF_STREAM_UNBUFFERED)) && space >= size) {
        append(stream, from, size);
        return size;
    }
    while (done < size && put_character(stream, from[done]))
        done++;
    return done;
}

/* Puts bytes and returns their number. -1: the buffer took all of them, but bytes that must be written at once were not
 * written. */
static ssize_t put(FILE *stream, const char *from, size_t size)
{
    bool must_flush;
    size_t done = fitting_bytes(stream, from, size, &must_flush);
    if (done)
        append(stream, from, done);
    if (done == size && !must_flush)
        return (ssize_t)done;
    if (!flush(stream))
        return done == size ? -1 : (ssize_t)done;
    size_t buffer_size = (size_t)(stream->_IO_buf_end - stream->_IO_buf_base);
    size_t direct = size - done;
    if (buffer_size >= BLOCK_BUFFER_BYTES_MIN)
        direct -= direct % buffer_size;
    size_t written = direct ? write_block(stream, from + done, direct) : 0;
    done += written;
    if (written == direct && done < size)
        done += put_rest(stream, from + done, size - done);
    return (ssize_t)done;
}

/* Macros that write to the buffer directly call this function when it is full. The caller must hold the lock. */
int __overflow(FILE *stream, int character)
{
    if (!mf_current || !is_plainly_written(stream))
        return LIBC(__overflow)(stream, character);
    if (character == EOF)
        return flush(stream) ? 0 : EOF;
    return put_character(stream, (char)character) ? (unsigned char)character : EOF;
}

/* ------------------------------------------------------------------------------------------- blocks and strings --- */

static ssize_t write_nothing(void *cookie, const char *bytes, size_t size)
{
    (void)cookie, (void)bytes, (void)size;
    return 0;
}

/* When a line buffer takes all bytes but cannot be flushed, fwrite returns their full count before glibc 2.43, and 0
 * since. This depends on the loaded libc, so test it with a stream that cannot be flushed. */
static bool libc_counts_unflushed(void)
{
    char buffer[16];
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_nothing});
    if (!stream || setvbuf(stream, buffer, _IOLBF, sizeof buffer) != 0)
        return true;
    LIBC(fwrite)("a", 1, 1, stream); /* the first byte switches the stream to writing */
    bool counts = LIBC(fwrite)("\n", 1, 1, stream) == 1;
    LIBC(fclose)(stream);
    return counts;
}

static bool unflushed_counts(void)
{
    static _Atomic(enum {UNKNOWN, COUNTS, COUNTS_NOT}) known;
    int error = errno;
    if (known == UNKNOWN)
        known = libc_counts_unflushed() ? COUNTS : COUNTS_NOT;
    errno = error;
    return known == COUNTS;
}

/* fwrite on a locked stream that libc need not handle. */
static size_t put_items(FILE *stream, const char *from, size_t size, size_t count)
{
    ssize_t bytes = put(stream, from, size * count);
    if (bytes < 0)
        return unflushed_counts() ? count : 0;
    return (size_t)bytes / size;
}

size_t fwrite(const void *restrict buffer, size_t size, size_t count, FILE *restrict stream)
{
    mf_stream_user own;
    size_t wanted;
    if (!mf_current || !size || !count || __builtin_mul_overflow(size, count, &wanted) || wanted > SSIZE_MAX)
        return LIBC(fwrite)(buffer, size, count, stream);
    mf_stream_lock(stream, &own);
    size_t done =
        is_plainly_written(stream) ? put_items(stream, buffer, size, count) : LIBC(fwrite)(buffer, size, count, stream);
    mf_stream_unlock(stream, &own);
    return done;
}

ALIAS(fwrite_unlocked, fwrite);

int putw(int word, FILE *stream)
{
    return fwrite(&word, sizeof word, 1, stream) == 1 ? 0 : EOF;
}

/* Unlike fwrite, it also fails if the buffer took all bytes but those that must be written at once were not written. */
static bool put_string(FILE *stream, const char *text, size_t length)
{
    return put(stream, text, length) == (ssize_t)length;
}

int fputs(const char *restrict text, FILE *restrict stream)
{
    if (!mf_current)
        return LIBC(fputs)(text, stream);
    mf_stream_user own;
    mf_stream_lock(stream, &own);
    int result;
    if (is_plainly_written(stream))
        result = put_string(stream, text, strlen(text)) ? 1 : EOF;
    else
        result = LIBC(fputs)(text, stream);
    mf_stream_unlock(stream, &own);
    return result;
}

ALIAS(fputs_unlocked, fputs);

int puts(const char *text)
{
    if (!mf_current)
        return LIBC(puts)(text);
    mf_stream_user own;
    mf_stream_lock(stdout, &own);
    size_t length = strlen(text);
    int result;
    if (!is_plainly_written(stdout))
        result = LIBC(puts)(text);
    else if (put_string(stdout, text, length) && put_string(stdout, "\n", 1))
        result = length < INT_MAX ? (int)length + 1 : INT_MAX;
    else
        result = EOF;
    mf_stream_unlock(stdout, &own);
    return result;
}

static bool has_free_byte(const FILE *stream)
{
    return stream->_IO_write_ptr < stream->_IO_write_end;
}

int fputc(int character, FILE *stream)
{
    if (!mf_current)
        return LIBC(fputc)(character, stream);
    mf_stream_user own;
    int result = (unsigned char)character;
    mf_stream_lock(stream, &own);
    if (has_free_byte(stream))
        *stream->_IO_write_ptr++ = (char)character;
    else
        result = __overflow(stream, result);
    mf_stream_unlock(stream, &own);
    return result;
}

ALIAS(putc, fputc);
ALIAS(_IO_putc, fputc);
ALIAS(fputc_unlocked, fputc);
ALIAS(putc_unlocked, fputc);

int putchar(int character)
{
    return fputc(character, stdout);
}

ALIAS(putchar_unlocked, putchar);

/* ---------------------------------------------------------------------------------------------------- formatted --- */

/* Of libc's functions only fputs reports that bytes were not written although they must be written at once. But it ends
 * at a NUL. */
static bool put_by_libc(FILE *stream, const char *text, size_t length)
{
    return strlen(text) == length ? LIBC(fputs)(text, stream) != EOF : LIBC(fwrite)(text, 1, length, stream) == length;
}

/* The stream is locked. */
static bool put_formatted(FILE *stream, const char *text, size_t length)
{
    return is_plainly_written(stream) ? put_string(stream, text, length) : put_by_libc(stream, text, length);
}

/* Prints formatted text, and frees it. */
static int print(FILE *stream, char *text, int length)
{
    mf_stream_user own;
    if (length < 0)
        return -1;
    mf_stream_lock(stream, &own);
    bool printed = !length || put_formatted(stream, text, (size_t)length);
    mf_stream_unlock(stream, &own);
    int error = errno;
    free(text);
    errno = error;
    return printed ? length : -1;
}

/* True if output is first formatted into memory. This reads flags of the stream without its lock: of these, only the
 * orientation ever changes, and only once. It includes streams without a descriptor, because a function that the
 * program passed to fopencookie may wait. During that wait libc's vfprintf has a record in the thread's list of cleanup
 * handlers, which another fiber would remove. */
static bool prints_through_memory(FILE *stream)
{
    return mf_current && !(stream->_flags & MF_STREAM_NO_WRITES) && fwide(stream, -1) < 0;
}

int vfprintf(FILE *restrict stream, const char *restrict format, va_list arguments)
{
    char *text;
    if (!prints_through_memory(stream))
        return LIBC(vfprintf)(stream, format, arguments);
    int length = vasprintf(&text, format, arguments);
    return print(stream, text, length);
}

/* libc aborts the program for what these functions check. */
int __vfprintf_chk(FILE *restrict stream, int flag, const char *restrict format, va_list arguments)
{
    char *text;
    if (!prints_through_memory(stream))
        return LIBC(__vfprintf_chk)(stream, flag, format, arguments);
    int length = __vasprintf_chk(&text, flag, format, arguments);
    return print(stream, text, length);
}

int vprintf(const char *restrict format, va_list arguments)
{
    return vfprintf(stdout, format, arguments);
}

int __vprintf_chk(int flag, const char *restrict format, va_list arguments)
{
    return __vfprintf_chk(stdout, flag, format, arguments);
}

int fprintf(FILE *restrict stream, const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, vfprintf, stream, format);
}

int printf(const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, vfprintf, stdout, format);
}

int __fprintf_chk(FILE *restrict stream, int flag, const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, __vfprintf_chk, stream, flag, format);
}

int __printf_chk(int flag, const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, __vfprintf_chk, stdout, flag, format);
}

/* To a descriptor, without a stream. */

static int print_to_descriptor(int descriptor, char *text, int length)
{
    ssize_t count = 1;
    for (int done = 0; done < length && count > 0; done += (int)count)
        count = write(descriptor, text + done, (size_t)(length - done));
    int error = errno;
    if (length >= 0)
        free(text);
    errno = error;
    return count > 0 ? length : -1;
}

int vdprintf(int descriptor, const char *restrict format, va_list arguments)
{
    char *text;
    if (!mf_current)
        return LIBC(vdprintf)(descriptor, format, arguments);
    int length = vasprintf(&text, format, arguments);
    return print_to_descriptor(descriptor, text, length);
}

int __vdprintf_chk(int descriptor, int flag, const char *restrict format, va_list arguments)
{
    char *text;
    if (!mf_current)
        return LIBC(__vdprintf_chk)(descriptor, flag, format, arguments);
    int length = __vasprintf_chk(&text, flag, format, arguments);
    return print_to_descriptor(descriptor, text, length);
}

int dprintf(int descriptor, const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, vdprintf, descriptor, format);
}

int __dprintf_chk(int descriptor, int flag, const char *restrict format, ...)
{
    RETURN_WITH_ARGUMENTS_AFTER(format, __vdprintf_chk, descriptor, flag, format);
}
