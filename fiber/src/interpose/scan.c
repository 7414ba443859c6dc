/*
 * scan.c: formatted input. libc's functions call its own read internally, which cannot be interposed.
 *
 * libc's own function scans a *view* of the stream: a second stream that is created for the call. The view passes on
 * the bytes of the real stream one at a time, when libc needs them; input.c reads them and parks. So libc decides what
 * is matched, stored and counted, and never consumes a byte too many. Bytes that libc pushes back into the view go back
 * into the stream.
 */
#include "libc.h"
#include "blocking.h"
#include "cleanup_handlers.h"
#include "stream.h"

#include <limits.h>
#include <stdio_ext.h>
#include <wchar.h>

MF_ALWAYS_LINKED(scan);

typedef struct view {
    FILE *stream;         /* the real stream, which is locked */
    mf_cleanup *cleanups; /* the list outside the call: scanf has a record for its lock */
    bool is_over;         /* no more bytes may be read */
    char buffer[1];
} view;

static ssize_t read_view(void *cookie, char *to, size_t size)
{
    view *v = cookie;
    (void)size;
    if (v->is_over)
        return 0;
    mf_cleanup *inner = mf_cleanups_exchange(v->cleanups);
    int character = __uflow(v->stream);
    mf_cleanups_exchange(inner);
    if (character == EOF)
        return 0; /* an error is recorded in the stream; for scanf it is the same as the end */
    *to = (char)character;
    return 1;
}

/* The view has a buffer, because libc flushes stdout before it reads an unbuffered stream. It has no lock, because a
 * thread that flushes all streams would wait for it. */
static FILE *open_view(view *v)
{
    FILE *stream = fopencookie(v, "r", (cookie_io_functions_t){.read = read_view});
    if (!stream)
        return NULL;
    setvbuf(stream, v->buffer, _IOFBF, sizeof v->buffer);
    __fsetlocking(stream, FSETLOCKING_BYCALLER);
    return stream;
}

/* Pushes back what libc has not consumed: one character, or the bytes of a sequence that began like a digit or
 * separator of the locale. */
static void push_back_rest(view *v, FILE *viewing)
{
    char rest[2 * MB_LEN_MAX];
    size_t count = 0;
    int character;
    v->is_over = true;
    while (count < sizeof rest && (character = __uflow(viewing)) != EOF)
        rest[count++] = (char)character;
    while (count > 0)
        ungetc((unsigned char)rest[--count], v->stream);
}

typedef int scanner(FILE *restrict, const char *restrict, va_list);

static int scan_view(scanner *libcs, view *v, const char *format, va_list arguments)
{
    FILE *viewing = open_view(v);
    if (!viewing)
        return EOF;
    v->cleanups = mf_cleanups_exchange(NULL);
    mf_cleanups_exchange(v->cleanups);
    int matched = libcs(viewing, format, arguments);
    int error = errno;
    push_back_rest(v, viewing);
    LIBC(fclose)(viewing);
    errno = error;
    return matched;
}

static bool is_libcs(FILE *stream)
{
    return !mf_current || (stream->_flags & MF_STREAM_NO_READS) || fwide(stream, -1) >= 0;
}

static int scan(scanner *libcs, FILE *stream, const char *format, va_list arguments)
{
    if (is_libcs(stream))
        return libcs(stream, format, arguments);
    mf_stream_user own;
    view v = {.stream = stream};
    mf_stream_lock(stream, &own);
    int matched = scan_view(libcs, &v, format, arguments);
    mf_stream_unlock(stream, &own);
    return matched;
}

/* ----------------------------------------------------------------------------------------------- by their names --- */

/* One of libc's three dialects of formats, under its four names. */
#define DIALECT(prefix)                                                                        \
    int prefix##vfscanf(FILE *restrict stream, const char *restrict format, va_list arguments) \
    {                                                                                          \
        return scan(LIBC(prefix##vfscanf), stream, format, arguments);                         \
    }                                                                                          \
                                                                                               \
    int prefix##vscanf(const char *restrict format, va_list arguments)                         \
    {                                                                                          \
        return prefix##vfscanf(stdin, format, arguments);                                      \
    }                                                                                          \
                                                                                               \
    int prefix##fscanf(FILE *restrict stream, const char *restrict format, ...)                \
    {                                                                                          \
        RETURN_WITH_ARGUMENTS_AFTER(format, prefix##vfscanf, stream, format);                  \
    }                                                                                          \
                                                                                               \
    int prefix##scanf(const char *restrict format, ...)                                        \
    {                                                                                          \
        RETURN_WITH_ARGUMENTS_AFTER(format, prefix##vfscanf, stdin, format);                   \
    }

DIALECT()
DIALECT(__isoc99_)
DIALECT(__isoc23_)

ALIAS(__vfscanf, vfscanf);
