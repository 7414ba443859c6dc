/* vector.c: MR_RECV_VECTOR and MR_SEND_VECTOR. */
#include "conform.h"

static void receives_into_all_elements(void)
{
    driver *d = driver_new();
    int pair[2];
    char a[3], b[4], c[10];
    struct iovec elements[] = {{a, sizeof a}, {NULL, 0}, {b, sizeof b}, {c, sizeof c}};
    memset(c, '.', sizeof c);
    local_pair(pair);
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
    connection c = local_connection();
    char received[20] = {0};
    struct iovec elements[] = {{"abc", 3}, {NULL, 0}, {"de", 2}};
    CHECK_EQ(perform(c.d, vector_request(MR_SEND_VECTOR, c.handle, elements, 3)).result, 5);
    CHECK_EQ(read_some(c.peer, received, sizeof received), 5);
    CHECK_MEMORY(received, "abcde", 5);
    driver_free(c.d);
}

static void the_array_may_go_after_the_end(void)
{
    connection c = local_connection();
    char byte;
    struct iovec *elements = malloc(sizeof *elements);
    *elements = (struct iovec){&byte, 1};
    mr_token token = start(c.d, vector_request(MR_RECV_VECTOR, c.handle, elements, 1));
    poll_once(c.d);
    mr_loop_cancel(driver_loop(c.d), token);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    free(elements);
    write_all(c.peer, "x", 1);
    run_for_ms(c.d, 5);
    driver_free(c.d);
}

/* Elements of many sizes, none included, through a small send buffer. */
static void all_goes_through_a_small_buffer(void)
{
    enum { SIZE = 4 << 20, COUNT = 1000 };
    connection c = local_connection();
    unsigned char *data = malloc(SIZE);
    struct iovec elements[COUNT];
    uint64_t random = 99;
    size_t position = 0;
    limit_send_buffer(c.number, 4096);
    fill_pattern(data, 0, SIZE);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 10 == 0 ? 0 : harness_random(&random) % (2 * SIZE / COUNT);
        size = i == COUNT - 1 || size > SIZE - position ? SIZE - position : size;
        elements[i] = (struct iovec){data + position, size};
        position += size;
    }
    slow_reader *reader = slow_reader_start(c.peer);
    mr_completion completion =
        perform(c.d, with_flags(vector_request(MR_SEND_VECTOR, c.handle, elements, COUNT), MR_ALL));
    CHECK_EQ(completion.result, SIZE);
    CHECK_EQ(completion.transferred, SIZE);
    CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_WR)).result, 0);
    CHECK_EQ(slow_reader_finish(reader), SIZE);
    free(data);
    driver_free(c.d);
}

static void all_of_nothing_is_nothing(void)
{
    connection c = tcp_connection();
    struct iovec elements[] = {{NULL, 0}, {NULL, 0}};
    CHECK_EQ(perform(c.d, with_flags(vector_request(MR_SEND_VECTOR, c.handle, elements, 2), MR_ALL)).result, 0);
    driver_free(c.d);
}

static void now_does_not_wait(void)
{
    connection c = local_connection();
    char byte;
    struct iovec element = {&byte, 1};
    mr_completion completion;
    CHECK(!submit(c.d, with_flags(vector_request(MR_RECV_VECTOR, c.handle, &element, 1), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    fill(c.number);
    CHECK(!submit(c.d, with_flags(vector_request(MR_SEND_VECTOR, c.handle, &element, 1), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    driver_free(c.d);
}

static void end_of_stream_is_zero(void)
{
    connection c = tcp_connection();
    char byte;
    struct iovec element = {&byte, 1};
    mr_token token = start(c.d, vector_request(MR_RECV_VECTOR, c.handle, &element, 1));
    hang_up(c.peer);
    CHECK_EQ(finish(c.d, token).result, 0);
    driver_free(c.d);
}

static void a_mistaken_count_is_refused(void)
{
    connection c = local_connection();
    static struct iovec elements[MR_VECTOR_MAX + 1];
    CHECK_EQ(perform(c.d, vector_request(MR_SEND_VECTOR, c.handle, elements, MR_VECTOR_MAX + 1)).result, -EINVAL);
    CHECK_EQ(perform(c.d, vector_request(MR_RECV_VECTOR, c.handle, elements, MR_VECTOR_MAX + 1)).result, -EINVAL);
    driver_free(c.d);
}

const conform_case vector_cases[] = {
    CASE(receives_into_all_elements),      CASE(sends_all_elements),          CASE(the_array_may_go_after_the_end),
    CASE(all_goes_through_a_small_buffer), CASE(all_of_nothing_is_nothing),   CASE(now_does_not_wait),
    CASE(end_of_stream_is_zero),           CASE(a_mistaken_count_is_refused), {0},
};
