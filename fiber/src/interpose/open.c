/* open.c: opens files and syncs them, on helper threads. */
#include "../offload.h"
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "stream.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>

MF_ALWAYS_LINKED(open);

typedef struct opening {
    void (*open)(struct opening *o);
    int directory;
    const char *path;
    int flags;
    mode_t mode;
    const struct open_how *how; /* of openat2; only the kernel reads it */
    size_t size;
    const char *stream_mode;
    FILE *stream;
    bool may_wait;
    int result;
} opening;

static void open_now(void *argument)
{
    opening *o = argument;
    o->open(o);
}

/* Opening a named pipe waits for the other end, which may never come. Opening a device may wait for ever too, for
 * example for a line's carrier. */
static void open_unless_it_waits(void *argument)
{
    opening *o = argument;
    struct stat status;
    o->may_wait = !(o->flags & (O_NONBLOCK | O_PATH)) && fstatat(o->directory, o->path, &status, 0) == 0 &&
                  (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
    errno = 0;
    if (!o->may_wait)
        open_now(o);
}

static void open_until_interrupted(opening *o)
{
    int error = mf_offload_interruptible(open_now, o, MF_NO_DESCRIPTOR);
    if (error == MF_OFFLOAD_NO_THREAD)
        mf_offload_to_new_thread(open_now, o);
    else if (error)
        mf_fail(error);
}

static void open_on_helper(opening *o)
{
    mf_offload(open_unless_it_waits, o);
    if (o->may_wait)
        open_until_interrupted(o);
}

/* ------------------------------------------------------------------------------------------------- descriptors --- */

static void open_descriptor(opening *o)
{
    o->result = LIBC(openat64)(o->directory, o->path, o->flags, o->mode);
}

static int open_file(int directory, const char *path, int flags, mode_t mode)
{
    opening o = {.open = open_descriptor, .directory = directory, .path = path, .flags = flags, .mode = mode};
    open_on_helper(&o);
    return o.result;
}

/* The third argument of open exists only with these flags. */
static bool has_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = has_mode(flags) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return mf_current ? open_file(AT_FDCWD, path, flags, mode) : LIBC(open64)(path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = has_mode(flags) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return mf_current ? open_file(directory, path, flags, mode) : LIBC(openat64)(directory, path, flags, mode);
}

int creat64(const char *path, mode_t mode)
{
    return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* Fortified calls without a mode. libc reports those that need one. */

int __open64_2(const char *path, int flags)
{
    return mf_current && !has_mode(flags) ? open_file(AT_FDCWD, path, flags, 0) : LIBC(__open64_2)(path, flags);
}

int __openat64_2(int directory, const char *path, int flags)
{
    return mf_current && !has_mode(flags) ? open_file(directory, path, flags, 0)
                                          : LIBC(__openat64_2)(directory, path, flags);
}

/*
 * openat2 is a function of glibc since 2.43, and a system call since Linux 5.6. Weak, because a program that was
 * written for an older glibc may define a function of that name itself.
 */
static void open_by_openat2(opening *o)
{
    o->result = (int)LIBC(syscall)(SYS_openat2, o->directory, o->path, o->how, o->size);
}

__attribute__((weak)) int openat2(int directory, const char *path, const struct open_how *how, size_t size)
{
    opening o = {.open = open_by_openat2, .directory = directory, .path = path, .how = how, .size = size};
    if (mf_current)
        open_on_helper(&o);
    else
        open_by_openat2(&o);
    return o.result;
}

ALIAS(open, open64);
ALIAS(__open, open64);
ALIAS(__open64, open64);
ALIAS(openat, openat64);
ALIAS(creat, creat64);
ALIAS(__open_2, __open64_2);
ALIAS(__openat_2, __openat64_2);

/* ----------------------------------------------------------------------------------------------------- streams --- */

static void open_stream(opening *o)
{
    o->stream = LIBC(fopen64)(o->path, o->stream_mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    if (!mf_current)
        return LIBC(fopen64)(path, mode);
    opening o = {.open = open_stream, .directory = AT_FDCWD, .path = path, .stream_mode = mode};
    open_on_helper(&o);
    return o.stream;
}

static void reopen_stream(opening *o)
{
    o->stream = LIBC(freopen64)(o->path, o->stream_mode, o->stream);
}

FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
    int descriptor = mf_stream_descriptor(stream);
    if (descriptor >= 0)
        mf_watch_note_close(descriptor, descriptor);
    opening o = {.open = reopen_stream, .path = path, .stream_mode = mode, .stream = stream};
    if (mf_current)
        mf_stream_end_writing(stream); /* libc does not report that error either */
    if (mf_current && !mf_stream_is_held(stream))
        open_until_interrupted(&o);
    else
        reopen_stream(&o);
    if (mf_current && !o.stream)
        mf_stream_forget(stream);
    if (descriptor >= 0)
        mf_watch_note_closed(descriptor, descriptor);
    return o.stream;
}

ALIAS(fopen, fopen64);
ALIAS(freopen, freopen64);

/* ---------------------------------------------------------------------------------------------- syncing --- */

typedef struct sync_call {
    int (*run)(const struct sync_call *f);
    int (*by_descriptor)(int descriptor);
    int descriptor;
    off64_t offset, length; /* of a range of a file */
    void *memory;
    size_t size;
    unsigned flags;
    int result;
} sync_call;

static int sync_by_descriptor(const sync_call *f)
{
    return f->by_descriptor(f->descriptor);
}

static int sync_range(const sync_call *f)
{
    return LIBC(sync_file_range)(f->descriptor, f->offset, f->length, f->flags);
}

static int sync_memory(const sync_call *f)
{
    return LIBC(msync)(f->memory, f->size, (int)f->flags);
}

static int sync_everything(const sync_call *f)
{
    (void)f;
    LIBC(sync)();
    return 0;
}

static void sync_now(void *argument)
{
    sync_call *f = argument;
    f->result = f->run(f);
}

static int sync_on_helper(sync_call f)
{
    if (!mf_current)
        return f.run(&f);
    mf_offload(sync_now, &f);
    return f.result;
}

int fsync(int descriptor)
{
    return sync_on_helper(
        (sync_call){.run = sync_by_descriptor, .by_descriptor = LIBC(fsync), .descriptor = descriptor});
}

int fdatasync(int descriptor)
{
    return sync_on_helper(
        (sync_call){.run = sync_by_descriptor, .by_descriptor = LIBC(fdatasync), .descriptor = descriptor});
}

int syncfs(int descriptor)
{
    return sync_on_helper(
        (sync_call){.run = sync_by_descriptor, .by_descriptor = LIBC(syncfs), .descriptor = descriptor});
}

int sync_file_range(int descriptor, off64_t offset, off64_t length, unsigned flags)
{
    return sync_on_helper(
        (sync_call){.run = sync_range, .descriptor = descriptor, .offset = offset, .length = length, .flags = flags});
}

int msync(void *memory, size_t size, int flags)
{
    return sync_on_helper((sync_call){.run = sync_memory, .memory = memory, .size = size, .flags = (unsigned)flags});
}

void sync(void)
{
    sync_on_helper((sync_call){.run = sync_everything});
}
