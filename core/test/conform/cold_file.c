/* cold_file.c: reads of what is in no cache: they wait for a disk, on Linux's backends. */
#include "conform.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { PIECES = 64, PIECE = 64 << 10, ROUNDS = 20, TMPFS = 0x01021994 };

typedef struct cold_file {
    driver *d;
    int number;
    mr_handle handle;
    unsigned char *bytes;
    mr_token tokens[PIECES];
    bool is_pending[PIECES];
} cold_file;

/* Of its pages none is in the page cache, as far as the kernel can be asked for that. */
static void chill(int number)
{
    CHECK_EQ(fsync(number), 0);
    CHECK_EQ(posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED), 0);
}

static cold_file open_cold(void)
{
    char name[] = "/var/tmp/millrace-XXXXXX";
    struct statfs system;
    cold_file f = {.number = mkstemp(name), .bytes = malloc(PIECES * PIECE)};
    if (f.number < 0 || conform_backend == MR_BACKEND_SIM)
        SKIP("no file on a disk");
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(fstatfs(f.number, &system), 0);
    if (system.f_type == TMPFS)
        SKIP("/var/tmp is in memory");
    f.d = driver_new();
    fill_pattern(f.bytes, 0, PIECES * PIECE);
    CHECK_EQ(write(f.number, f.bytes, PIECES * PIECE), PIECES * PIECE);
    f.handle = adopt(f.d, f.number);
    return f;
}

static void close_cold(cold_file *f)
{
    CHECK_EQ(perform(f->d, close_request(f->handle)).result, 0);
    driver_free(f->d);
    free(f->bytes);
}

static mr_request piece_request(cold_file *f, int piece)
{
    static uint64_t serial;
    return (mr_request){.kind = MR_READ_FILE,
                        .handle = f->handle,
                        .buffer = f->bytes + (size_t)piece * PIECE,
                        .length = PIECE,
                        .offset = (uint64_t)piece * PIECE,
                        .user_data = 900 + ++serial};
}

static void *submit_all(void *argument)
{
    cold_file *f = argument;
    for (int i = 0; i < PIECES; i++) {
        mr_completion completion;
        f->is_pending[i] = submit(f->d, piece_request(f, i), &completion);
        f->tokens[i] = completion.token;
        CHECK(f->is_pending[i] || completion.result == PIECE); /* the kernel had read it ahead */
    }
    poll_once(f->d); /* hands them to the kernel as this thread's */
    return NULL;
}

static void check_pieces(cold_file *f)
{
    for (int i = 0; i < PIECES; i++)
        if (f->is_pending[i])
            CHECK_EQ(finish(f->d, f->tokens[i]).result, PIECE);
    check_pattern(f->bytes, 0, PIECES * PIECE);
}

static void reading_what_is_in_no_cache(void)
{
    cold_file f = open_cold();
    for (int round = 0; round < ROUNDS; round++) {
        chill(f.number);
        memset(f.bytes, 0, PIECES * PIECE);
        submit_all(&f);
        check_pieces(&f);
    }
    close_cold(&f);
}

/* The kernel begins some of them again on behalf of a thread that is gone. */
static void reads_outlive_the_thread_that_submitted_them(void)
{
    if (conform_fixes_owners)
        SKIP("its owner stays");
    cold_file f = open_cold();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        chill(f.number);
        memset(f.bytes, 0, PIECES * PIECE);
        start_thread(&thread, submit_all, &f);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        check_pieces(&f);
    }
    close_cold(&f);
}

static void memory_that_is_not_there_is_an_error(void)
{
    cold_file f = open_cold();
    mr_request request = piece_request(&f, 0);
    request.buffer = (void *)4096;
    chill(f.number);
    CHECK_EQ(perform(f.d, request).result, -EFAULT);
    close_cold(&f);
}

static void closing_while_the_disk_works(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        cold_file f = open_cold();
        chill(f.number);
        submit_all(&f);
        CHECK_EQ(perform(f.d, close_request(f.handle)).result, 0);
        for (int i = 0; i < PIECES; i++) {
            int64_t result = f.is_pending[i] ? finish(f.d, f.tokens[i]).result : PIECE;
            CHECK(result == PIECE || result == -EBADF);
        }
        driver_free(f.d);
        free(f.bytes);
    }
}

const conform_case cold_file_cases[] = {
    CASE(reading_what_is_in_no_cache),
    CASE(reads_outlive_the_thread_that_submitted_them),
    CASE(memory_that_is_not_there_is_an_error),
    CASE(closing_while_the_disk_works),
    {0},
};
