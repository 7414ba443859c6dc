/* request.c: mistakes in requests, names, and what a completion carries. */
#include "conform.h"

static void check_refused(driver *d, mr_request request, int64_t error)
{
    mr_completion completion;
    CHECK(!submit(d, request, &completion));
    CHECK_EQ(completion.result, error);
    CHECK_EQ(completion.transferred, 0);
}

static void mistakes_are_refused(void)
{
    connection c = local_connection();
    char byte;
    struct iovec element = {.iov_base = &byte, .iov_len = 1};
    struct sockaddr_in address = dead_address();
    check_refused(c.d, (mr_request){.kind = MR_KIND_COUNT, .handle = c.handle}, -EINVAL);
    check_refused(c.d, (mr_request){.kind = (mr_kind)-1, .handle = c.handle}, -EINVAL);
    check_refused(c.d, (mr_request){.kind = (mr_kind)9999, .handle = c.handle}, -EINVAL);
    check_refused(c.d, with_flags(recv_request(c.handle, &byte, 1), 0x80), -EINVAL);
    check_refused(c.d, with_flags(recv_request(c.handle, &byte, 1), MR_MORE), -EINVAL);
    check_refused(c.d, with_flags(recv_request(c.handle, &byte, 1), MR_TRIED), -EINVAL);
    check_refused(c.d, with_flags(recv_request(c.handle, &byte, 1), MR_ALL), -EINVAL);
    check_refused(c.d, with_flags(vector_request(MR_RECV_VECTOR, c.handle, &element, 1), MR_ALL), -EINVAL);
    check_refused(c.d, with_flags(timeout_request(1), MR_NOW), -EINVAL);
    check_refused(c.d, recv_request(c.handle, NULL, 1), -EINVAL);
    check_refused(c.d, send_request(c.handle, NULL, 1), -EINVAL);
    check_refused(c.d, vector_request(MR_RECV_VECTOR, c.handle, NULL, 1), -EINVAL);
    check_refused(c.d, vector_request(MR_SEND_VECTOR, c.handle, NULL, 1), -EINVAL);
    check_refused(c.d, connect_request(c.handle, NULL, sizeof address), -EINVAL);
    check_refused(c.d, connect_request(c.handle, &address, 100000), -EINVAL);
    driver_free(c.d);
}

/* The only operations on foreign descriptors are waits. */
static void foreign_descriptors_are_refused(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    struct iovec element = {&byte, 1};
    local_pair(pair);
    mr_handle handle = mr_handle_foreign(pair[0]);
    CHECK_EQ(mr_handle_descriptor(handle), pair[0]);
    check_refused(d, recv_request(handle, &byte, 1), -EBADF);
    check_refused(d, send_request(handle, &byte, 1), -EBADF);
    check_refused(d, vector_request(MR_RECV_VECTOR, handle, &element, 1), -EBADF);
    check_refused(d, vector_request(MR_SEND_VECTOR, handle, &element, 1), -EBADF);
    check_refused(d, accept_request(handle, NULL), -EBADF);
    check_refused(d, shutdown_request(handle, SHUT_WR), -EBADF);
    check_refused(d, close_request(handle), -EBADF);
    CHECK(is_open(pair[0]));
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, handle)).result, 0);
    driver_free(d);
}

static void adopting_nothing_is_an_error(void)
{
    driver *d = driver_new();
    mr_handle handle;
    CHECK_EQ(mr_group_adopt(driver_group(d), -1, &handle), -EBADF);
    driver_free(d);
}

static void user_data_comes_back(void)
{
    connection c = local_connection();
    char bytes[3];
    const uint64_t values[] = {0, UINT64_MAX, 0x8000000000000000u};
    mr_token tokens[3];
    for (int i = 0; i < 3; i++) {
        mr_request request = recv_request(c.handle, &bytes[i], 1);
        request.user_data = values[i];
        tokens[i] = start(c.d, request); /* the driver compares */
    }
    write_all(c.peer, "abc", 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(finish(c.d, tokens[i]).user_data, values[i]);
    driver_free(c.d);
}

static void the_request_may_go_after_submission(void)
{
    connection c = local_connection();
    char byte;
    mr_completion completion;
    mr_request *request = malloc(sizeof *request);
    *request = recv_request(c.handle, &byte, 1);
    CHECK_EQ(mr_loop_submit(driver_loop(c.d), request, &completion), MR_PENDING);
    expect(c.d, completion.token, request->user_data);
    memset(request, 0xff, sizeof *request);
    free(request);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, completion.token).result, 1);
    driver_free(c.d);
}

static void operations_have_names(void)
{
    driver *d = driver_new();
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) \
    CHECK_EQ(strcmp(mr_kind_name(MR_##NAME), TEXT), 0);
#include "operation.def"
    CHECK(mr_kind_name(MR_KIND_COUNT) != NULL);
    driver_free(d);
}

static void counters_count(void)
{
    connection c = local_connection();
    char byte;
    mr_counters before = counters_of(c.d);
    mr_token first = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token second = start(c.d, recv_request(c.handle, &byte, 1));
    CHECK_EQ(counters_of(c.d).in_flight, before.in_flight + 2);
    CHECK_EQ(counters_of(c.d).operations, before.operations + 2);
    CHECK_EQ(counters_of(c.d).parks, before.parks + 2);
    CHECK_EQ(counters_of(c.d).completions, before.completions);
    write_all(c.peer, "xy", 2);
    finish(c.d, first);
    finish(c.d, second);
    CHECK_EQ(counters_of(c.d).in_flight, before.in_flight);
    CHECK_EQ(counters_of(c.d).completions, before.completions + 2);
    CHECK_GT(counters_of(c.d).system_calls, before.system_calls);
    before = counters_of(c.d);
    CHECK_EQ(perform(c.d, recv_request(0, &byte, 1)).result, -EBADF);
    CHECK_EQ(counters_of(c.d).operations, before.operations + 1);
    CHECK_EQ(counters_of(c.d).completions, before.completions + 1);
    uint64_t waits = counters_of(c.d).waits;
    while (counters_of(c.d).waits == waits) /* nothing to wait for, if the 5 ms pass before it is polled */
        CHECK_GE(run_for_ms(c.d, 5), 1);
    driver_free(c.d);
}

static void the_clock_moves_forward(void)
{
    uint64_t last_ns = clock_ns();
    CHECK_NE(last_ns, 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = clock_ns();
        CHECK_GE(now_ns, last_ns);
        last_ns = now_ns;
    }
    sleep_ms(5);
    CHECK_GE(clock_ns() - last_ns, 5 * NS_PER_MS);
}

static void loops_leave_no_descriptors_behind(void)
{
    driver_free(driver_new());
    int before = open_descriptors();
    for (int i = 0; i < 20; i++) {
        driver *d = driver_new(), *other = driver_new_beside(d);
        CHECK_EQ(mr_loop_index(driver_loop(d)), 0);
        CHECK_EQ(mr_loop_index(driver_loop(other)), 1);
        driver_free(other);
        driver_free(d);
    }
    CHECK_EQ(open_descriptors(), before);
}

const conform_case request_cases[] = {
    CASE(mistakes_are_refused),
    CASE(foreign_descriptors_are_refused),
    CASE(adopting_nothing_is_an_error),
    CASE(user_data_comes_back),
    CASE(the_request_may_go_after_submission),
    CASE(operations_have_names),
    CASE(counters_count),
    CASE(the_clock_moves_forward),
    CASE(loops_leave_no_descriptors_behind),
    {0},
};
