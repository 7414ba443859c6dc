/* vector.c: MR_RECV_VECTOR and MR_SEND_VECTOR. */
#include "conform.h"

#include <limits.h>
#include <pthread.h>

static void receives_into_all_elements(void)
{
    driver *d = driver_new();
    int pair[2];
    char a[3], b[4], c[10] = "..........";
    struct iovec elements[] = {{a, sizeof a}, {NULL, 0}, {b, sizeof b}, {c, sizeof c}};
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    for (int wait_first = 0; wait_first < 2; wait_first++) {
        mr_request request = vector_request(MR_RECV_VECTOR, handle, elements, 4);
        mr_token token = wait_first ? start(d, request) : 0;
        write_all(pair[1], "abcdefghi", 9);
        mr_completion completion = wait_first ? finish(d, token) : perform(d, request);
        CHECK_EQ(completion.result, 9);
        CHECK_EQ(completion.transferred, 9);
        CHECK_MEMORY(a, "abc", 3);
        CHECK_MEMORY(b, "defg", 4);
        CHECK_MEMORY(c, "hi........", 10);
    }
    CHECK_EQ(elements[0].iov_len, sizeof a);
    driver_free(d);
}

static void sends_all_elements(void)
{
    driver *d = driver_new();
    int pair[2];
    char received[20] = {0};
    struct iovec elements[] = {{"abc", 3}, {NULL, 0}, {"de", 2}};
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(perform(d, vector_request(MR_SEND_VECTOR, handle, elements, 3)).result, 5);
    CHECK_EQ(MUST(read(pair[1], received, sizeof received)), 5);
    CHECK_MEMORY(received, "abcde", 5);
    driver_free(d);
}

static void the_array_may_go_after_the_end(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    struct iovec *elements = malloc(sizeof *elements);
    *elements = (struct iovec){&byte, 1};
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, vector_request(MR_RECV_VECTOR, handle, elements, 1));
    poll_once(d);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    free(elements);
    write_all(pair[1], "x", 1);
    run_for_ms(d, 5);
    driver_free(d);
}

typedef struct reader {
    int descriptor;
    uint64_t received;
} reader;

static void *read_all(void *argument)
{
    reader *r = argument;
    unsigned char buffer[30011];
    ssize_t size;
    set_blocking(r->descriptor);
    while ((size = read(r->descriptor, buffer, sizeof buffer)) > 0) {
        check_pattern(buffer, r->received, (size_t)size);
        r->received += (uint64_t)size;
        if (r->received % 7 == 0)
            usleep(200);
    }
    return NULL;
}

/* Elements of many sizes, none included, through a small send buffer. */
static void all_goes_through_a_small_buffer(void)
{
    enum { SIZE = 4 << 20, COUNT = 1000 };
    driver *d = driver_new();
    int pair[2], buffer_size = 4096;
    pthread_t thread;
    unsigned char *data = malloc(SIZE);
    struct iovec elements[COUNT];
    uint64_t random = 99;
    size_t position = 0;
    unix_pair(pair);
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer_size, sizeof buffer_size));
    fill_pattern(data, 0, SIZE);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 10 == 0 ? 0 : harness_random(&random) % (2 * SIZE / COUNT);
        size = i == COUNT - 1 || size > SIZE - position ? SIZE - position : size;
        elements[i] = (struct iovec){data + position, size};
        position += size;
    }
    reader r = {.descriptor = pair[1]};
    CHECK_EQ(pthread_create(&thread, NULL, read_all, &r), 0);
    mr_handle handle = adopt(d, pair[0]);
    mr_completion completion =
        perform(d, with_flags(vector_request(MR_SEND_VECTOR, handle, elements, COUNT), MR_ALL));
    CHECK_EQ(completion.result, SIZE);
    CHECK_EQ(completion.transferred, SIZE);
    CHECK_EQ(perform(d, shutdown_request(handle, SHUT_WR)).result, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(r.received, SIZE);
    free(data);
    driver_free(d);
}

static void all_of_nothing_is_nothing(void)
{
    driver *d = driver_new();
    int pair[2];
    struct iovec elements[] = {{NULL, 0}, {NULL, 0}};
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(perform(d, with_flags(vector_request(MR_SEND_VECTOR, handle, elements, 2), MR_ALL)).result, 0);
    driver_free(d);
}

static void now_does_not_wait(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    struct iovec element = {&byte, 1};
    mr_completion completion;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK(!submit(d, with_flags(vector_request(MR_RECV_VECTOR, handle, &element, 1), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    fill(pair[0]);
    CHECK(!submit(d, with_flags(vector_request(MR_SEND_VECTOR, handle, &element, 1), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    driver_free(d);
}

static void end_of_stream_is_zero(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    struct iovec element = {&byte, 1};
    tcp_pair(pair);
    mr_token token = start(d, vector_request(MR_RECV_VECTOR, adopt(d, pair[0]), &element, 1));
    close(pair[1]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_mistaken_count_is_refused(void)
{
    driver *d = driver_new();
    int pair[2];
    static struct iovec elements[IOV_MAX + 1];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(perform(d, vector_request(MR_SEND_VECTOR, handle, elements, IOV_MAX + 1)).result, -EINVAL);
    CHECK_EQ(perform(d, vector_request(MR_RECV_VECTOR, handle, elements, IOV_MAX + 1)).result, -EINVAL);
    driver_free(d);
}

const conform_case vector_cases[] = {
    CASE(receives_into_all_elements),
    CASE(sends_all_elements),
    CASE(the_array_may_go_after_the_end),
    CASE(all_goes_through_a_small_buffer),
    CASE(all_of_nothing_is_nothing),
    CASE(now_does_not_wait),
    CASE(end_of_stream_is_zero),
    CASE(a_mistaken_count_is_refused),
    {0},
};
