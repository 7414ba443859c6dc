/* descriptor.c: POSIX descriptors that are not sockets, and duplicates: pipes, eventfds, files. */
#include "../system/calls.h"
#include "conform.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

static void a_pipe_can_be_waited_for(void)
{
    driver *d = driver_new();
    int ends[2];
    MUST(system_pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(ends[1]))).result, 0);
    for (int i = 0; i < 3; i++) {
        char byte;
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(ends[0])));
        CHECK_STAYS_PENDING(d, token);
        CHECK_EQ(MUST(system_write(ends[1], "x", 1)), 1);
        CHECK_EQ(finish(d, token).result, 0);
        CHECK_EQ(MUST(system_read(ends[0], &byte, 1)), 1);
    }
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(ends[0])));
    run_for_ms(d, 2);
    system_close(ends[1]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_pipe_without_a_reader_wakes_its_writer(void)
{
    driver *d = driver_new();
    int ends[2];
    char page[4096] = {0};
    MUST(system_pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    while (system_write(ends[1], page, sizeof page) > 0)
        ;
    mr_token token = start(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(ends[1])));
    CHECK_STAYS_PENDING(d, token);
    system_close(ends[0]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

/* Foreign descriptors need not be non-blocking. */
static void an_event_descriptor_can_be_waited_for(void)
{
    driver *d = driver_new();
    int event = MUST(system_eventfd(0, O_CLOEXEC));
    uint64_t value;
    for (int i = 0; i < 3; i++) {
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(event)));
        CHECK_STAYS_PENDING(d, token);
        MUST(system_eventfd_write(event, 1));
        CHECK_EQ(finish(d, token).result, 0);
        MUST(system_eventfd_read(event, &value));
    }
    driver_free(d);
}

/* A descriptor that is ready but belongs to a wait that has ended must not keep the loop busy. */
static void readiness_nobody_waits_for_costs_nothing(void)
{
    driver *d = driver_new();
    int event = MUST(system_eventfd(0, O_CLOEXEC));
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(event)));
    poll_once(d);
    MUST(system_eventfd_write(event, 1));
    CHECK_EQ(finish(d, token).result, 0);
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 50);
    CHECK_LE(counters_of(d).system_calls - before, 20);
    driver_free(d);
}

static int event_at(int number)
{
    int event = MUST(system_eventfd(0, O_CLOEXEC));
    if (event != number) {
        MUST(system_dup3(event, number, O_CLOEXEC));
        system_close(event);
    }
    return number;
}

static void a_number_may_be_reused_between_waits(void)
{
    driver *d = driver_new();
    int number = MUST(system_eventfd(0, O_CLOEXEC));
    for (int i = 0; i < 5; i++) {
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
        poll_once(d);
        CHECK(!has_arrived(d, token));
        MUST(system_eventfd_write(number, 1));
        CHECK_EQ(finish(d, token).result, 0);
        system_close(number);
        event_at(number);
    }
    driver_free(d);
}

/* epoll watches the open file, not the number: a duplicate keeps a registration alive after the number was closed. */
static void a_duplicate_of_the_former_file_is_not_heard(void)
{
    driver *d = driver_new();
    int number = MUST(system_eventfd(0, O_CLOEXEC));
    int duplicate = MUST(system_fcntl(number, F_DUPFD_CLOEXEC, 0));
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
    poll_once(d);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    system_close(number);
    event_at(number);
    token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
    MUST(system_eventfd_write(duplicate, 1));
    CHECK_STAYS_PENDING(d, token);
    MUST(system_eventfd_write(number, 1));
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_file_is_always_ready(void)
{
    driver *d = driver_new();
    int file = MUST(system_open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(file))).result, 0);
    driver_free(d);
}

static void check_without_positions(driver *d, int descriptor)
{
    mr_handle handle = adopt(d, descriptor);
    char bytes[8] = {0};
    for (uint64_t offset = 0; offset < 2; offset++) {
        mr_request request = recv_request(handle, bytes, sizeof bytes);
        request.offset = offset;
        request.kind = MR_READ_FILE;
        CHECK_EQ(perform(d, request).result, -ESPIPE);
        request.kind = MR_WRITE_FILE;
        CHECK_EQ(perform(d, request).result, -ESPIPE);
    }
}

static void what_has_no_positions_is_no_file(void)
{
    driver *d = driver_new();
    int ends[2];
    uint64_t value;
    MUST(system_pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    CHECK_EQ(MUST(system_write(ends[1], "x", 1)), 1);
    check_without_positions(d, ends[0]);
    check_without_positions(d, ends[1]);
    int event = MUST(system_eventfd(1, O_CLOEXEC | O_NONBLOCK));
    check_without_positions(d, event);
    MUST(system_eventfd_read(event, &value));
    CHECK_EQ(value, 1);
    if (conform_backend != MR_BACKEND_SIM)
        check_without_positions(d, MUST(posix_openpt(O_RDWR | O_NOCTTY)));
    driver_free(d);
}

/* epoll watches the open file, not the number: a duplicate (as a child process has it) keeps the file alive. */
static void a_duplicate_of_the_former_socket_is_not_heard(void)
{
    driver *d = driver_new();
    int old[2], new[2];
    char byte = '-';
    local_pair(old);
    int duplicate = MUST(system_fcntl(old[0], F_DUPFD_CLOEXEC, 500));
    mr_handle handle = adopt(d, old[0]);
    mr_token token = start(d, recv_request(handle, &byte, 1));
    poll_once(d);
    CHECK_EQ(perform(d, close_request(handle)).result, 0);
    CHECK_EQ(finish(d, token).result, -EBADF);
    local_pair_at(old[0], new);
    handle = adopt(d, new[0]);
    token = start(d, wait_request(MR_WAIT_READABLE, handle));
    mr_token receiving = start(d, recv_request(handle, &byte, 1));
    write_all(old[1], "!", 1);
    CHECK_STAYS_PENDING(d, token);
    CHECK(!has_arrived(d, receiving));
    CHECK_EQ(drain(duplicate), 1);
    write_all(new[1], "n", 1);
    CHECK_EQ(finish(d, receiving).result, 1);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

/* Somebody waits for the descriptor as a foreign one, and only then is it adopted and its handle used on this loop. */
static void a_foreign_wait_outlives_the_first_use_of_the_handle(void)
{
    connection c = {.d = driver_new()};
    int pair[2];
    local_pair(pair);
    c.number = pair[0];
    c.peer = pair[1];
    mr_token token = start(c.d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(c.number)));
    CHECK_STAYS_PENDING(c.d, token);
    c.handle = adopt(c.d, c.number);
    CHECK_EQ(perform(c.d, send_request(c.handle, "x", 1)).result, 1);
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "y", 1);
    CHECK_EQ(finish(c.d, token).result, 0);
    char byte;
    CHECK_EQ(perform(c.d, recv_request(c.handle, &byte, 1)).result, 1);
    token = start(c.d, recv_request(c.handle, &byte, 1));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "z", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    CHECK_EQ(byte, 'z');
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    driver_free(c.d);
}

/* If a descriptor cannot be watched any longer, the operations that wait for an event end. A send-then-receive that has
 * not sent yet is not one of them. */
static void a_send_then_receive_does_not_end_with_those_who_wait(void)
{
    driver *d = driver_new();
    int pair[2];
    local_pair(pair);
    mr_token waiting = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(pair[0])));
    mr_token cancelled = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(pair[0])));
    run_for_ms(d, 2);
    mr_handle handle = adopt(d, pair[0]);
    mr_completion completion;
    bool is_pending = submit(d, send_then_receive_request(handle, borrow_from(d), 0, 1), &completion);
    system_close(pair[0]); /* too many: the simplest way to make watching fail */
    mr_loop_cancel(driver_loop(d), cancelled);
    finish(d, cancelled);
    mr_loop_cancel(driver_loop(d), waiting);
    finish(d, waiting);
    if (is_pending)
        mr_loop_cancel(driver_loop(d), completion.token);
    check_nothing_borrowed(is_pending ? finish(d, completion.token) : completion, -EBADF);
    driver_free(d);
}

/* The peak memory of this process, in KiB. */
static long memory_high_water(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
#ifdef __APPLE__
    return usage.ru_maxrss / 1024;
#else
    return usage.ru_maxrss;
#endif
}

static void a_number_that_nobody_can_have_costs_no_memory(void)
{
    enum { ROOM_KB = 16 << 10 };
    driver *d = driver_new();
    char byte;
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(1000))).result, -EBADF);
    long before = memory_high_water();
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(INT_MAX))).result, -EBADF);
    CHECK_EQ(perform(d, recv_request(UINT64_C(1) << 32 | INT_MAX, &byte, 1)).result, -EBADF);
    CHECK_LT(memory_high_water() - before, ROOM_KB);
    driver_free(d);
}

const conform_case descriptor_cases[] = {
    CASE(a_send_then_receive_does_not_end_with_those_who_wait),
    CASE(a_number_that_nobody_can_have_costs_no_memory),
    CASE(a_foreign_wait_outlives_the_first_use_of_the_handle),
    CASE(a_pipe_can_be_waited_for),
    CASE(a_pipe_without_a_reader_wakes_its_writer),
    CASE(an_event_descriptor_can_be_waited_for),
    CASE(readiness_nobody_waits_for_costs_nothing),
    CASE(a_number_may_be_reused_between_waits),
    CASE(a_duplicate_of_the_former_file_is_not_heard),
    CASE(a_file_is_always_ready),
    CASE(what_has_no_positions_is_no_file),
    CASE(a_duplicate_of_the_former_socket_is_not_heard),
    {0},
};
