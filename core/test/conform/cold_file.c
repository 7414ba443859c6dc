/* cold_file.c: reads of uncached bytes, which wait for a disk on Linux's backends; and sending only cached bytes. */
#include "conform.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
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

/* None of its pages is in the page cache, as far as a program can request that. */
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

/* The kernel restarts some of them on behalf of a thread that has ended. */
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

/* More than one page, because the check itself may load the page that it checks, if its thread pauses at the wrong
 * moment. */
static mr_request send_pieces(const connection *c, int file, int first, int pieces)
{
    return (mr_request){.kind = MR_SEND_FILE,
                        .flags = MR_CACHED,
                        .handle = c->handle,
                        .file = file,
                        .offset = (uint64_t)first * PIECE,
                        .length = (uint64_t)pieces * PIECE,
                        .user_data = 800};
}

/* Whether none of its pages are in the cache, by cachestat (Linux 6.5), which does not begin to read them. */
static bool is_cold(int file, int piece)
{
#ifdef SYS_cachestat
    const long call = SYS_cachestat;
#else
    const long call = 451;
#endif
    uint64_t range[2] = {(uint64_t)piece * PIECE, PIECE};
    uint64_t found[5] = {0};
    if (syscall(call, file, range, found, 0) != 0)
        SKIP("the system does not count pages");
    return found[0] == 0;
}

/* The kernel keeps pages for a moment that another processor has just used. */
static void chill_surely(int file, int piece)
{
    for (int i = 0; i < 200; i++) {
        chill(file);
        if (is_cold(file, piece))
            return;
        sleep_ms(5);
    }
    SKIP("the system keeps it");
}

/* Without readahead, and in single pages. */
static void warm(cold_file *f, int first, int pieces)
{
    CHECK_EQ(posix_fadvise(f->number, 0, 0, POSIX_FADV_RANDOM), 0);
    CHECK_EQ(pread(f->number, f->bytes, (size_t)pieces * PIECE, (off_t)first * PIECE), pieces * PIECE);
}

static void what_is_in_no_cache_is_not_sent(void)
{
    cold_file f = open_cold();
    connection c = local_connection();
    mr_completion completion;
    chill_surely(f.number, 20);
    CHECK(!submit(c.d, send_pieces(&c, f.number, 20, 2), &completion));
    CHECK_EQ(completion.result, -MR_NOT_CACHED);
    CHECK_EQ(completion.transferred, 0);
    warm(&f, 20, 2);
    CHECK_EQ(mr_file_cache_state(f.number, (uint64_t)20 * PIECE, PIECE), MR_IN_CACHE);
    mr_request small = send_pieces(&c, f.number, 20, 1);
    small.length = 1000;
    CHECK_EQ(perform(c.d, small).result, 1000);
    driver_free(c.d);
    close_cold(&f);
}

/* The first and the last page are cached. */
static void a_gap_in_the_cache_is_seen(void)
{
    cold_file f = open_cold();
    connection c = local_connection();
    chill_surely(f.number, 7);
    warm(&f, 0, 7);
    warm(&f, 8, 8);
    CHECK(is_cold(f.number, 7));
    CHECK_EQ(perform(c.d, send_pieces(&c, f.number, 0, 16)).result, -MR_NOT_CACHED);
    warm(&f, 7, 1);
    CHECK_GE(perform(c.d, send_pieces(&c, f.number, 0, 16)).result, 1);
    driver_free(c.d);
    close_cold(&f);
}

/* The beginning leaves the cache first. The core notices that even without counting pages. */
static void a_missing_beginning_is_seen(void)
{
    cold_file f = open_cold();
    connection c = local_connection();
    chill_surely(f.number, 0);
    warm(&f, 1, 15);
    CHECK(is_cold(f.number, 0));
    CHECK_EQ(perform(c.d, send_pieces(&c, f.number, 0, 16)).result, -MR_NOT_CACHED);
    CHECK_GE(perform(c.d, send_pieces(&c, f.number, 1, 15)).result, 1);
    driver_free(c.d);
    close_cold(&f);
}

/* It checks again when the socket is writable. */
static void what_has_left_the_cache_meanwhile_is_not_sent(void)
{
    cold_file f = open_cold();
    connection c = local_connection();
    warm(&f, 30, 2);
    fill(c.number);
    mr_token token = start(c.d, send_pieces(&c, f.number, 30, 2));
    CHECK_STAYS_PENDING(c.d, token);
    chill_surely(f.number, 30);
    CHECK_EQ(finish_while_read(c.d, token, c.peer).result, -MR_NOT_CACHED);
    driver_free(c.d);
    close_cold(&f);
}

/* For some reads Linux interprets offset -1 as the file's position, and would move it. */
static void asking_does_not_move_the_file(void)
{
    cold_file f = open_cold();
    CHECK_EQ(lseek(f.number, 100, SEEK_SET), 100);
    CHECK_EQ(mr_file_cache_state(f.number, UINT64_MAX, 1), MR_IN_CACHE);
    mr_file_cache_state(f.number, 0, 10);
    mr_file_cache_state(f.number, 0, PIECES * PIECE);
    CHECK_EQ(lseek(f.number, 0, SEEK_CUR), 100);
    close_cold(&f);
}

const conform_case cold_file_cases[] = {
    CASE(reading_what_is_in_no_cache),          CASE(reads_outlive_the_thread_that_submitted_them),
    CASE(memory_that_is_not_there_is_an_error), CASE(closing_while_the_disk_works),
    CASE(what_is_in_no_cache_is_not_sent),      CASE(a_gap_in_the_cache_is_seen),
    CASE(a_missing_beginning_is_seen),          CASE(what_has_left_the_cache_meanwhile_is_not_sent),
    CASE(asking_does_not_move_the_file),        {0},
};
