/* stream_flush.c: flushing all streams, and streams that a fiber has locked. */
#include "stream_test.h"

typedef struct flushing {
    FILE *streams[2];
    int result, error;
} flushing;

static void *flush_everything(void *argument)
{
    flushing *f = argument;
    errno = 0;
    f->result = fflush(NULL);
    f->error = errno;
    return NULL;
}

/* Into a full pipe, and a stream of wide characters, which libc writes. */
static void flushing_all_streams(void)
{
    int full[2], wide[2];
    char text[16] = "";
    flushing f = {.result = EOF};
    MUST(pipe(full));
    MUST(pipe2(wide, O_NONBLOCK));
    slow_reader slow = {.descriptor = full[0]};
    size_t filled = fill_up(full[1]);
    f.streams[0] = fdopen(full[1], "w");
    f.streams[1] = fdopen(wide[1], "w");
    CHECK_GE(fputs("a line", f.streams[0]), 0);
    CHECK_GE(fputws(L"wide", f.streams[1]), 0);
    CHECK_EQ(pthread_create(&slow.thread, NULL, read_later, &slow), 0);
    must_leave_carrier_free(flush_everything, &f);
    CHECK_EQ(f.result, 0);
    CHECK_EQ(read(wide[0], text, sizeof text), 4);
    CHECK_EQ(strcmp(text, "wide"), 0);
    for (int i = 0; i < 2; i++)
        fclose(f.streams[i]);
    pthread_join(slow.thread, NULL);
    CHECK_EQ(slow.bytes, filled + 6);
    close(full[0]);
    close(wide[0]);
}

/* If one stream fails, the others are still written. */
static void flushing_a_stream_that_nobody_reads(void)
{
    int gone[2], there[2];
    char text[16];
    flushing f = {.result = 0};
    signal(SIGPIPE, SIG_IGN);
    for (int order = 0; order < 2; order++) {
        MUST(pipe(gone));
        MUST(pipe2(there, O_NONBLOCK));
        close(gone[0]);
        f.streams[order] = fdopen(gone[1], "w");
        f.streams[!order] = fdopen(there[1], "w");
        CHECK_GE(fputs("lost", f.streams[order]), 0);
        CHECK_GE(fputs("kept", f.streams[!order]), 0);
        on_fiber(flush_everything, &f);
        CHECK_EQ(f.result, EOF);
        CHECK_EQ(f.error, EPIPE);
        CHECK(ferror(f.streams[order]));
        CHECK_EQ(read(there[0], text, sizeof text), 4);
        for (int i = 0; i < 2; i++)
            fclose(f.streams[i]);
        close(there[0]);
    }
}

/* One fiber waits to flush a stream; the fiber that uses the stream closes it. */
static void flushing_a_stream_that_is_closed_meanwhile(void)
{
    int ends[2];
    flushing f = {.result = EOF};
    MUST(pipe(ends));
    slow_reader slow = {.descriptor = ends[0]};
    fill_up(ends[1]);
    mr_fiber *writer = spawn(print_much, fdopen(ends[1], "w"));
    let_fibers_park();
    mr_fiber *flusher = spawn(flush_everything, &f);
    let_fibers_park();
    CHECK_EQ(pthread_create(&slow.thread, NULL, read_later, &slow), 0);
    join(writer);
    join(flusher);
    CHECK_EQ(f.result, 0);
    pthread_join(slow.thread, NULL);
    close(ends[0]);
}

static FILE *shared_stream;
static volatile int inside; /* volatile: the header says that flockfile changes nothing the compiler knows */

static void *use_alone(void *argument)
{
    for (int i = 0; i < 10; i++) {
        flockfile(shared_stream);
        flockfile(shared_stream);
        CHECK_EQ(inside, 0);
        inside = 1;
        usleep(1000);
        inside = 0;
        funlockfile(shared_stream);
        CHECK_EQ(inside, 0);
        funlockfile(shared_stream);
    }
    return argument;
}

static void *be_refused(void *argument)
{
    CHECK_NE(ftrylockfile(shared_stream), 0);
    return argument;
}

static void *lock_and_let_another_try(void *argument)
{
    CHECK_EQ(ftrylockfile(shared_stream), 0);
    on_fiber(be_refused, NULL);
    funlockfile(shared_stream);
    return argument;
}

static void flockfile_excludes_other_fibers(void)
{
    mr_fiber *fibers[4];
    shared_stream = tmpfile();
    CHECK(shared_stream != NULL);
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(use_alone, NULL);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
    on_fiber(lock_and_let_another_try, NULL);
    fclose(shared_stream);
}

static void *reopen_and_close_locked(void *argument)
{
    FILE *stream = fopen("/dev/null", "w");
    CHECK(stream != NULL);
    flockfile(stream);
    CHECK(freopen("/dev/null", "r", stream) == stream);
    funlockfile(stream);
    flockfile(stream);
    flockfile(stream);
    CHECK_EQ(fclose(stream), 0);
    stream = popen("exit 3", "r");
    CHECK(stream != NULL);
    flockfile(stream);
    CHECK_EQ(WEXITSTATUS(pclose(stream)), 3);
    return argument;
}

static void *use_two_streams(void *argument)
{
    FILE *streams[2];
    for (int i = 0; i < 2; i++)
        CHECK((streams[i] = fopen("/dev/null", "w")) != NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_GE(fputs("line", streams[i]), 0);
        CHECK_EQ(fclose(streams[i]), 0);
    }
    return argument;
}

/* Only its owner can unlock a stream, so no helper closes it; and the next stream at its address is not locked. */
static void a_locked_stream_is_reopened_and_closed(void)
{
    on_fiber(reopen_and_close_locked, NULL);
    on_fiber(use_two_streams, NULL);
}

static mr_event *may_try;

static void *try_when_told(void *argument)
{
    CHECK_EQ(mr_event_wait(may_try, MR_NO_DEADLINE), 0);
    return be_refused(argument);
}

static void *lock_and_end(void *argument)
{
    flockfile(shared_stream);
    return argument;
}

/* As with threads, nobody can acquire the lock of a fiber that has ended. */
static void a_fiber_that_ends_with_a_locked_stream(void)
{
    shared_stream = tmpfile();
    CHECK(shared_stream != NULL);
    CHECK_EQ(mr_event_create(&may_try), 0);
    mr_fiber *other = spawn(try_when_told, NULL);
    on_fiber(lock_and_end, NULL);
    mr_event_set(may_try);
    join(other);
    mr_event_destroy(may_try);
    funlockfile(shared_stream); /* exit waits for locked streams since glibc 2.41 */
    fclose(shared_stream);
}

static mr_event *has_failed, *may_end;

static void *fail_to_reopen_locked(void *argument)
{
    char path[] = "/tmp/millrace-fiber-XXXXXX";
    int file = MUST(mkstemp(path));
    MUST(close(file));
    FILE *stream = fopen("/dev/null", "r");
    CHECK(stream != NULL);
    flockfile(stream);
    flockfile(stream);
    MUST(unlink(path));
    CHECK(freopen(path, "r", stream) == NULL);
    CHECK_EQ(errno, ENOENT);
    CHECK(!mf_stream_is_held(stream));
    if (!is_glibc_since(2, 41)) { /* it still exists */
        funlockfile(stream);
        funlockfile(stream);
        fclose(stream);
    }
    mr_event_set(has_failed);
    CHECK_EQ(mr_event_wait(may_end, MR_NO_DEADLINE), 0); /* the next stream is used while this fiber exists */
    return argument;
}

/* A failed freopen ends the stream, and its locks with it. The next stream at its address is unlocked: using it does
 * not wait until the fiber that had locked the first one ends. */
static void a_locked_stream_is_not_reopened(void)
{
    CHECK_EQ(mr_event_create(&has_failed), 0);
    CHECK_EQ(mr_event_create(&may_end), 0);
    mr_fiber *failing = spawn(fail_to_reopen_locked, NULL);
    CHECK_EQ(mr_event_wait(has_failed, MR_NO_DEADLINE), 0);
    on_fiber(use_two_streams, NULL);
    mr_event_set(may_end);
    join(failing);
    mr_event_destroy(may_end);
    mr_event_destroy(has_failed);
}

const fiber_case stream_flush_cases[] = {
    CASE(flushing_all_streams),
    CASE(flushing_a_stream_that_nobody_reads),
    CASE(flushing_a_stream_that_is_closed_meanwhile),
    CASE(flockfile_excludes_other_fibers),
    CASE(a_locked_stream_is_reopened_and_closed),
    CASE(a_locked_stream_is_not_reopened),
    CASE(a_fiber_that_ends_with_a_locked_stream),
    {0},
};
