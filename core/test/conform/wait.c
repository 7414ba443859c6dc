/* wait.c: MR_WAIT_READABLE and MR_WAIT_WRITABLE, on adopted and on foreign descriptors. */
#include "conform.h"

#include <fcntl.h>
#include <sys/eventfd.h>

static void readable_now_and_later(void)
{
    driver *d = driver_new();
    int pair[2];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, handle));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 0);
    /* Readable still, and nothing was taken. */
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, handle)).result, 0);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, handle)).result, 0);
    CHECK_EQ(drain(pair[0]), 1);
    token = start(d, wait_request(MR_WAIT_READABLE, handle));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void writable_now_and_later(void)
{
    driver *d = driver_new();
    int pair[2];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, handle)).result, 0);
    fill(pair[0]);
    mr_token token = start(d, wait_request(MR_WAIT_WRITABLE, handle));
    CHECK_STAYS_PENDING(d, token);
    drain(pair[1]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_wait_and_a_receive_on_one_socket(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token waiting = start(d, wait_request(MR_WAIT_READABLE, handle));
    mr_token receiving = start(d, recv_request(handle, &byte, 1));
    poll_once(d);
    write_all(pair[1], "xy", 2);
    CHECK_EQ(finish(d, receiving).result, 1);
    CHECK_EQ(finish(d, waiting).result, 0);
    driver_free(d);
}

static void readers_learn_that_the_peer_has_gone(void)
{
    driver *d = driver_new();
    int pair[2];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, handle));
    poll_once(d);
    close(pair[1]);
    CHECK_EQ(finish(d, token).result, 0);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, handle)).result, 0);
    driver_free(d);
}

static void both_directions_learn_of_a_reset(void)
{
    driver *d = driver_new();
    int pair[2];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    mr_token reading = start(d, wait_request(MR_WAIT_READABLE, handle));
    mr_token writing = start(d, wait_request(MR_WAIT_WRITABLE, handle));
    run_for_ms(d, 5);
    reset(pair[1]);
    CHECK_EQ(finish(d, reading).result, 0);
    CHECK_EQ(finish(d, writing).result, 0);
    driver_free(d);
}

static void a_pipe_can_be_waited_for(void)
{
    driver *d = driver_new();
    int ends[2];
    MUST(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(ends[1]))).result, 0);
    for (int i = 0; i < 3; i++) {
        char byte;
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(ends[0])));
        CHECK_STAYS_PENDING(d, token);
        CHECK_EQ(MUST(write(ends[1], "x", 1)), 1);
        CHECK_EQ(finish(d, token).result, 0);
        CHECK_EQ(MUST(read(ends[0], &byte, 1)), 1);
    }
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(ends[0])));
    run_for_ms(d, 2);
    close(ends[1]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_pipe_without_a_reader_wakes_its_writer(void)
{
    driver *d = driver_new();
    int ends[2];
    char page[4096] = {0};
    MUST(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    while (write(ends[1], page, sizeof page) > 0)
        ;
    mr_token token = start(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(ends[1])));
    CHECK_STAYS_PENDING(d, token);
    close(ends[0]);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

/* Foreign descriptors need not be non-blocking. */
static void an_event_descriptor_can_be_waited_for(void)
{
    driver *d = driver_new();
    int event = MUST(eventfd(0, EFD_CLOEXEC));
    eventfd_t value;
    for (int i = 0; i < 3; i++) {
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(event)));
        CHECK_STAYS_PENDING(d, token);
        MUST(eventfd_write(event, 1));
        CHECK_EQ(finish(d, token).result, 0);
        MUST(eventfd_read(event, &value));
    }
    driver_free(d);
}

static void readers_and_writers_of_a_foreign_descriptor(void)
{
    driver *d = driver_new();
    int pair[2];
    unix_pair(pair);
    fill(pair[0]);
    mr_handle handle = mr_handle_foreign(pair[0]);
    mr_token reading[3], writing[3];
    for (int i = 0; i < 3; i++) {
        reading[i] = start(d, wait_request(MR_WAIT_READABLE, handle));
        writing[i] = start(d, wait_request(MR_WAIT_WRITABLE, handle));
    }
    run_for_ms(d, 5);
    mr_loop_cancel(driver_loop(d), reading[1]);
    CHECK_EQ(finish(d, reading[1]).result, -ECANCELED);
    drain(pair[1]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(finish(d, writing[i]).result, 0);
    CHECK_STAYS_PENDING(d, reading[0]);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, reading[0]).result, 0);
    CHECK_EQ(finish(d, reading[2]).result, 0);
    driver_free(d);
}

/* A descriptor that is ready but belongs to a wait that has ended must not keep the loop busy. */
static void readiness_nobody_waits_for_costs_nothing(void)
{
    driver *d = driver_new();
    int event = MUST(eventfd(0, EFD_CLOEXEC));
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(event)));
    poll_once(d);
    MUST(eventfd_write(event, 1));
    CHECK_EQ(finish(d, token).result, 0);
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 50);
    CHECK_LE(counters_of(d).system_calls - before, 20);
    driver_free(d);
}

static int event_at(int number)
{
    int event = MUST(eventfd(0, EFD_CLOEXEC));
    if (event != number) {
        MUST(dup3(event, number, O_CLOEXEC));
        close(event);
    }
    return number;
}

static void a_number_may_be_reused_between_waits(void)
{
    driver *d = driver_new();
    int number = MUST(eventfd(0, EFD_CLOEXEC));
    for (int i = 0; i < 5; i++) {
        mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
        poll_once(d);
        CHECK(!has_arrived(d, token));
        MUST(eventfd_write(number, 1));
        CHECK_EQ(finish(d, token).result, 0);
        close(number);
        event_at(number);
    }
    driver_free(d);
}

/* epoll watches the open file, not the number: a duplicate keeps a registration alive after the number was closed. */
static void a_duplicate_of_the_former_file_is_not_heard(void)
{
    driver *d = driver_new();
    int number = MUST(eventfd(0, EFD_CLOEXEC));
    int duplicate = MUST(fcntl(number, F_DUPFD_CLOEXEC, 0));
    mr_token token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
    poll_once(d);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    close(number);
    event_at(number);
    token = start(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)));
    MUST(eventfd_write(duplicate, 1));
    CHECK_STAYS_PENDING(d, token);
    MUST(eventfd_write(number, 1));
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void a_closed_number_is_an_error(void)
{
    driver *d = driver_new();
    int event = MUST(eventfd(0, EFD_CLOEXEC));
    close(event);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(event))).result, -EBADF);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(-1))).result, -EBADF);
    driver_free(d);
}

static void a_file_is_always_ready(void)
{
    driver *d = driver_new();
    int file = MUST(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(file))).result, 0);
    driver_free(d);
}

const conform_case wait_cases[] = {
    CASE(readable_now_and_later),
    CASE(writable_now_and_later),
    CASE(a_wait_and_a_receive_on_one_socket),
    CASE(readers_learn_that_the_peer_has_gone),
    CASE(both_directions_learn_of_a_reset),
    CASE(a_pipe_can_be_waited_for),
    CASE(a_pipe_without_a_reader_wakes_its_writer),
    CASE(an_event_descriptor_can_be_waited_for),
    CASE(readers_and_writers_of_a_foreign_descriptor),
    CASE(readiness_nobody_waits_for_costs_nothing),
    CASE(a_number_may_be_reused_between_waits),
    CASE(a_duplicate_of_the_former_file_is_not_heard),
    CASE(a_closed_number_is_an_error),
    CASE(a_file_is_always_ready),
    {0},
};
