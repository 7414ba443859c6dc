/* stream_input_calls.c: reading from stdio streams. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fortified and old names of functions, which compilers use. */
int _IO_getc(FILE *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);

/* The headers map fscanf to C99's version. This is the old one. */
int old_fscanf(FILE *, const char *, ...) __asm__("fscanf");

static FILE *stream_of(world *w)
{
    return fdopen(dup(w->descriptor), "r");
}

/* An unbuffered stream reads from the descriptor exactly as many bytes as the caller requests. */
static FILE *unbuffered_stream_of(world *w)
{
    FILE *stream = stream_of(w);
    if (stream)
        setvbuf(stream, NULL, _IONBF, 0);
    return stream;
}

static void call_fread(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)fread(o->data, 4, 2, stream);
    end_stream(stream, o);
}

static void call_fgets(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgets(o->data, 8, stream) ? (long)strlen(o->data) : -1;
    end_stream(stream, o);
}

static void call_fread_chk(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = (long)__fread_chk(o->data, DATA_BYTES, 4, 2, stream);
    end_stream(stream, o);
}

static void call_fgets_chk(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = __fgets_chk(o->data, DATA_BYTES, 8, stream) ? (long)strlen(o->data) : -1;
    end_stream(stream, o);
}

/* Scans a word of at most seven bytes, as an eventfd's number has; then reads the byte behind it. */
static void scan_word(world *w, outcome *o, int (*scan)(FILE *, const char *, ...))
{
    int length = 0;
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = scan(stream, "%7s%n", o->data, &length);
    o->detail[3] = o->result == 1 ? length * 256 + fgetc(stream) : length;
    end_stream(stream, o);
}

static void call_fscanf(world *w, outcome *o)
{
    scan_word(w, o, fscanf);
}

static void call_old_fscanf(world *w, outcome *o)
{
    scan_word(w, o, old_fscanf);
}

/* Pushes another byte back than the one that was read. */
static void call_ungetc(world *w, outcome *o)
{
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgetc(stream);
    if (o->result >= 0 && ungetc('X', stream) == 'X')
        o->detail[3] = (long)fread(o->data, 1, 4, stream);
    end_stream(stream, o);
}

static void call_fgetc(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = fgetc(stream);
    end_stream(stream, o);
}

static void call_getw(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = getw(stream);
    end_stream(stream, o);
}

/* Reads to a letter of the text; from an eventfd, which has no file type, to a byte of its number. */
static void call_getdelim(world *w, outcome *o)
{
    struct stat status = {0};
    fstat(w->descriptor, &status);
    int delimiter = status.st_mode & S_IFMT ? 'e' : 0;
    char *line = NULL;
    size_t size = 0;
    FILE *stream = stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = getdelim(&line, &size, delimiter, stream);
    if (o->result > 0)
        strncpy(o->data, line, DATA_BYTES - 1);
    free(line);
    end_stream(stream, o);
}

static void call_old_getc(world *w, outcome *o)
{
    FILE *stream = unbuffered_stream_of(w);
    o->result = -1;
    if (!stream)
        return;
    o->result = _IO_getc(stream);
    end_stream(stream, o);
}

static const call calls[] = {
    {"old_getc", NEED_READABLE, false, false, call_old_getc},
    {"fread", NEED_READABLE, false, false, call_fread},
    {"fgets", NEED_READABLE, false, false, call_fgets},
    {"fread_chk", NEED_READABLE, false, false, call_fread_chk},
    {"fgets_chk", NEED_READABLE, false, false, call_fgets_chk},
    {"fscanf", NEED_READABLE, false, false, call_fscanf},
    {"old_fscanf", NEED_READABLE, false, false, call_old_fscanf},
    {"ungetc", NEED_READABLE, false, false, call_ungetc},
    {"fgetc", NEED_READABLE, false, false, call_fgetc},
    {"getw", NEED_READABLE, false, false, call_getw},
    {"getdelim", NEED_READABLE, false, false, call_getdelim},
};

const call_table stream_input_calls = {calls, sizeof calls / sizeof *calls};
