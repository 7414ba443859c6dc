/* stream_output_calls.c: writing to stdio streams. */
#include "calls.h"

#include <unistd.h>

/* The fortified and old names of functions, which compilers use. */
int __fprintf_chk(FILE *, int, const char *, ...);
int __dprintf_chk(int, int, const char *, ...);
int _IO_putc(int, FILE *);

static FILE *output_of(world *w, int buffering)
{
    FILE *stream = fdopen(dup(w->descriptor), "w");
    if (stream)
        setvbuf(stream, NULL, buffering, 1024);
    return stream;
}

static void call_fwrite_large(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)fwrite(large, 1, sizeof large, stream);
    note_if_partial(o, sizeof large);
    end_stream(stream, o);
}

static void call_fputs(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOLBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = fputs("a line\nand", stream) == EOF ? -1 : 1;
    end_stream(stream, o);
}

static void call_fputc(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = fputc('x', stream);
    end_stream(stream, o);
}

static void call_putw(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = putw(1, stream);
    end_stream(stream, o);
}

static void call_fprintf(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    /* Less than 128 bytes: since glibc 2.37 libc writes longer texts in several pieces, a fiber always in one. */
    o->result = fprintf(stream, "%s: %*d\n", "wide", 100, 5);
    end_stream(stream, o);
}

static void call_fprintf_chk(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = __fprintf_chk(stream, 1, "%s: %d\n", "checked", 5);
    end_stream(stream, o);
}

static void call_fflush(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fflush(stream);
    end_stream(stream, o);
}

static void call_fflush_all(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fflush(NULL);
    end_stream(stream, o);
}

static void call_fclose(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IOFBF);
    o->result = -1;
    if (!stream)
        return;
    o->detail[3] = fputs("text", stream) == EOF;
    o->result = fclose(stream);
}

/* Given a closed descriptor, glibc 2.36 leaks the buffer of dprintf (iovdprintf.c: it is allocated by the seek that
 * fails). LeakSanitizer must ignore this leak. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static void expect_leak(bool expected)
{
    void (*tell)(void) = expected ? __lsan_disable : __lsan_enable;
    if (tell)
        tell();
}

static void call_dprintf(world *w, outcome *o)
{
    expect_leak(true);
    o->result = dprintf(w->descriptor, "%s: %d\n", "number", 5);
    expect_leak(false);
}

static void call_dprintf_chk(world *w, outcome *o)
{
    expect_leak(true);
    o->result = __dprintf_chk(w->descriptor, 1, "%s: %d\n", "number", 5);
    expect_leak(false);
}

static void call_old_putc(world *w, outcome *o)
{
    FILE *stream = output_of(w, _IONBF);
    o->result = -1;
    if (!stream)
        return;
    o->result = _IO_putc('x', stream);
    end_stream(stream, o);
}

static const call calls[] = {
    {"old_putc", NEED_WRITABLE, false, false, call_old_putc},
    {"fwrite_large", NEED_WRITABLE, false, false, call_fwrite_large},
    {"fputs", NEED_WRITABLE, false, false, call_fputs},
    {"fputc", NEED_WRITABLE, false, false, call_fputc},
    {"putw", NEED_WRITABLE, false, false, call_putw},
    {"fprintf", NEED_WRITABLE, false, false, call_fprintf},
    {"fprintf_chk", NEED_WRITABLE, false, false, call_fprintf_chk},
    {"fflush", NEED_WRITABLE, false, false, call_fflush},
    {"fflush_all", NEED_WRITABLE, false, false, call_fflush_all},
    {"fclose", NEED_WRITABLE, false, false, call_fclose},
    {"dprintf", NEED_WRITABLE, false, false, call_dprintf},
    {"dprintf_chk", NEED_WRITABLE, false, false, call_dprintf_chk},
};

const call_table stream_output_calls = {calls, sizeof calls / sizeof *calls};
