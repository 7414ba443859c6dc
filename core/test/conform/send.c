/* send.c: MR_SEND, with and without MR_ALL. */
#include "conform.h"

#include <pthread.h>
#include <signal.h>

static void sends_what_fits(void)
{
    driver *d = driver_new();
    int pair[2];
    char received[10] = {0};
    unix_pair(pair);
    mr_completion completion = perform(d, send_request(adopt(d, pair[0]), "hello", 5));
    CHECK_EQ(completion.result, 5);
    CHECK_EQ(completion.transferred, 5);
    CHECK_EQ(MUST(read(pair[1], received, sizeof received)), 5);
    CHECK_MEMORY(received, "hello", 5);
    driver_free(d);
}

static void nothing_is_sent_at_once(void)
{
    driver *d = driver_new();
    int pair[2];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(perform(d, send_request(handle, "", 0)).result, 0);
    CHECK_EQ(perform(d, send_all_request(handle, "", 0)).result, 0);
    driver_free(d);
}

static void waits_for_room(void)
{
    driver *d = driver_new();
    int pair[2];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    mr_token token = start(d, send_request(handle, "x", 1));
    CHECK_STAYS_PENDING(d, token);
    drain(pair[1]);
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

static void without_all_a_part_is_enough(void)
{
    enum { SIZE = 8 << 20 };
    driver *d = driver_new();
    int pair[2];
    char *data = calloc(1, SIZE);
    unix_pair(pair);
    mr_completion completion = perform(d, send_request(adopt(d, pair[0]), data, SIZE));
    CHECK_GT(completion.result, 0);
    CHECK_LT(completion.result, SIZE);
    CHECK_EQ(completion.result, completion.transferred);
    CHECK_EQ(drain(pair[1]), completion.result);
    free(data);
    driver_free(d);
}

typedef struct slow_reader {
    int descriptor;
    uint64_t received;
} slow_reader;

static void *read_slowly(void *argument)
{
    slow_reader *reader = argument;
    unsigned char buffer[40000];
    uint64_t random = 5;
    ssize_t size;
    set_blocking(reader->descriptor);
    while ((size = read(reader->descriptor, buffer, harness_random(&random) % sizeof buffer + 1)) > 0) {
        check_pattern(buffer, reader->received, (size_t)size);
        reader->received += (uint64_t)size;
        if (harness_random(&random) % 16 == 0)
            usleep(harness_random(&random) % 500);
    }
    CHECK_EQ(size, 0);
    return NULL;
}

static void all_goes_through_a_small_buffer(void)
{
    enum { SIZE = 8 << 20 };
    driver *d = driver_new();
    int pair[2], buffer_size = 4096;
    pthread_t thread;
    unsigned char *data = malloc(SIZE);
    unix_pair(pair);
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer_size, sizeof buffer_size));
    fill_pattern(data, 0, SIZE);
    slow_reader reader = {.descriptor = pair[1]};
    CHECK_EQ(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    mr_handle handle = adopt(d, pair[0]);
    mr_completion completion = perform(d, send_all_request(handle, data, SIZE));
    CHECK_EQ(completion.result, SIZE);
    CHECK_EQ(completion.transferred, SIZE);
    CHECK_EQ(perform(d, shutdown_request(handle, SHUT_WR)).result, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(reader.received, SIZE);
    free(data);
    driver_free(d);
}

/* Starts an MR_ALL send that cannot end by itself, and lets a part of it go. */
static mr_token start_endless(driver *d, mr_handle handle, void *data, size_t size)
{
    mr_token token = start(d, send_all_request(handle, data, size));
    run_for_ms(d, 10);
    CHECK(!has_arrived(d, token));
    return token;
}

static void all_reports_progress_with_its_error(void)
{
    enum { SIZE = 16 << 20 };
    char *data = calloc(1, SIZE);
    static const int64_t errors[] = {-ECANCELED, -ETIMEDOUT, -EBADF};
    for (int i = 0; i < 3; i++) {
        driver *d = driver_new();
        int pair[2];
        tcp_pair(pair);
        mr_handle handle = adopt(d, pair[0]);
        mr_token token = start_endless(d, handle, data, SIZE);
        if (i == 0)
            mr_loop_cancel(driver_loop(d), token);
        if (i == 1)
            mr_loop_update(driver_loop(d), token, in_ms(2));
        if (i == 2)
            CHECK_EQ(perform(d, close_request(handle)).result, 0);
        mr_completion completion = finish(d, token);
        CHECK_EQ(completion.result, errors[i]);
        CHECK_GT(completion.transferred, 0);
        CHECK_LT(completion.transferred, SIZE);
        size_t received = 0, more;
        do {
            sleep_ms(5);
            received += more = drain(pair[1]);
        } while (more > 0);
        CHECK_EQ(received, completion.transferred);
        driver_free(d);
    }
    free(data);
}

static void all_ends_when_the_peer_goes(void)
{
    enum { SIZE = 16 << 20 };
    driver *d = driver_new();
    int pair[2];
    char *data = calloc(1, SIZE);
    signal(SIGPIPE, SIG_DFL);
    tcp_pair(pair);
    mr_token token = start_endless(d, adopt(d, pair[0]), data, SIZE);
    reset(pair[1]);
    mr_completion completion = finish(d, token);
    CHECK(completion.result == -ECONNRESET || completion.result == -EPIPE);
    CHECK_GT(completion.transferred, 0);
    CHECK_LT(completion.transferred, SIZE);
    free(data);
    driver_free(d);
}

static void broken_pipe_raises_no_signal(void)
{
    driver *d = driver_new();
    int pair[2];
    struct iovec element = {"x", 1};
    signal(SIGPIPE, SIG_DFL);
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    close(pair[1]);
    CHECK_EQ(perform(d, send_request(handle, "x", 1)).result, -EPIPE);
    CHECK_EQ(perform(d, send_all_request(handle, "x", 1)).result, -EPIPE);
    CHECK_EQ(perform(d, with_flags(send_request(handle, "x", 1), MR_NOW)).result, -EPIPE);
    CHECK_EQ(perform(d, vector_request(MR_SEND_VECTOR, handle, &element, 1)).result, -EPIPE);
    driver_free(d);
}

static void peer_gone_ends_a_pending_send(void)
{
    driver *d = driver_new();
    int pair[2];
    signal(SIGPIPE, SIG_DFL);
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    mr_token token = start(d, send_request(handle, "x", 1));
    CHECK_STAYS_PENDING(d, token);
    close(pair[1]);
    mr_completion completion = finish(d, token);
    CHECK(completion.result == -EPIPE || completion.result == -ECONNRESET);
    driver_free(d);
}

static void now_does_not_wait(void)
{
    enum { SIZE = 8 << 20 };
    driver *d = driver_new();
    int pair[2];
    char *data = calloc(1, SIZE);
    mr_completion completion;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK(!submit(d, with_flags(send_request(handle, data, SIZE), MR_NOW), &completion));
    CHECK_GT(completion.result, 0);
    CHECK_LT(completion.result, SIZE);
    fill(pair[0]);
    CHECK(!submit(d, with_flags(send_request(handle, data, SIZE), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    CHECK_EQ(completion.transferred, 0);
    free(data);
    driver_free(d);
}

/* The error that prevented all from being sent is EAGAIN; some had gone. */
static void all_now_tells_what_went(void)
{
    enum { SIZE = 8 << 20 };
    driver *d = driver_new();
    int pair[2];
    char *data = calloc(1, SIZE);
    mr_completion completion;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK(!submit(d, with_flags(send_all_request(handle, data, SIZE), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    CHECK_GT(completion.transferred, 0);
    CHECK_EQ(drain(pair[1]), completion.transferred);
    CHECK(!submit(d, with_flags(send_all_request(handle, data, 100), MR_NOW), &completion));
    CHECK_EQ(completion.result, 100);
    free(data);
    driver_free(d);
}

/* Sends that follow one another, each as soon as the last has ended, keep their order when they have to wait. */
static void sends_in_a_row_keep_their_order(void)
{
    enum { SIZE = 200000, COUNT = 20 };
    driver *d = driver_new();
    int pair[2];
    pthread_t thread;
    unsigned char *data = malloc((size_t)SIZE * COUNT);
    unix_pair(pair);
    fill_pattern(data, 0, (size_t)SIZE * COUNT);
    mr_handle handle = adopt(d, pair[0]);
    slow_reader reader = {.descriptor = pair[1]};
    CHECK_EQ(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_EQ(perform(d, send_all_request(handle, data + i * SIZE, SIZE)).result, SIZE);
    CHECK_EQ(perform(d, shutdown_request(handle, SHUT_WR)).result, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(reader.received, (size_t)SIZE * COUNT);
    free(data);
    driver_free(d);
}

const conform_case send_cases[] = {
    CASE(sends_what_fits),
    CASE(nothing_is_sent_at_once),
    CASE(waits_for_room),
    CASE(without_all_a_part_is_enough),
    CASE(all_goes_through_a_small_buffer),
    CASE(all_reports_progress_with_its_error),
    CASE(all_ends_when_the_peer_goes),
    CASE(broken_pipe_raises_no_signal),
    CASE(peer_gone_ends_a_pending_send),
    CASE(now_does_not_wait),
    CASE(all_now_tells_what_went),
    CASE(sends_in_a_row_keep_their_order),
    {0},
};
