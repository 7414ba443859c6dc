/*
 * error_queue.c: sockets whose queue of errors is not empty, on Linux: a program requested one (SO_TIMESTAMPING,
 * IP_RECVERR) and does not empty it. For them poll(2) always reports an error, while other calls do not fail.
 */
#include "conform.h"

#include <linux/net_tstamp.h>
#include <time.h>

extern bool mr_io_uring_without_buffer_rings;

/* Its queue has the time at which a byte was sent. */
static connection connection_with_error(void)
{
    int flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    char byte;
    if (conform_backend == MR_BACKEND_SIM)
        SKIP("simulated sockets have no queue of errors");
    connection c = tcp_connection();
    if (setsockopt(c.number, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) < 0 && errno == ENOPROTOOPT)
        SKIP("this system's sockets have no time stamps, as in QEMU's user-mode emulation");
    write_all(c.number, "x", 1);
    CHECK_EQ(read_some(c.peer, &byte, 1), 1);
    flags = 0;
    MUST(setsockopt(c.number, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags));
    return c;
}

static uint64_t processor_time_ns(void)
{
    struct timespec used;
    MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used));
    return (uint64_t)used.tv_sec * NS_PER_SECOND + (uint64_t)used.tv_nsec;
}

/* A receive that the kernel does for io_uring may occupy a kernel thread. */
static void check_costs_nothing(driver *d, mr_token token, int threads_more)
{
    int threads = threads_of_process() + threads_more;
    uint64_t calls = counters_of(d).system_calls, time_ns = processor_time_ns();
    run_for_ms(d, 100);
    CHECK(!has_arrived(d, token));
    CHECK_LE(counters_of(d).system_calls - calls, 300);
    CHECK_LE(processor_time_ns() - time_ns, 30 * NS_PER_MS);
    CHECK_LE(threads_of_process(), threads);
}

static void receives_wait(mr_request (*request_of)(mr_handle handle, void *memory))
{
    char memory[sizeof(struct iovec) + 8];
    connection c = connection_with_error();
    for (int i = 0; i < 3; i++) {
        mr_token token = start(c.d, request_of(c.handle, memory));
        check_costs_nothing(c.d, token, 1);
        write_all(c.peer, "x", 1);
        mr_completion completion = finish(c.d, token);
        CHECK_EQ(completion.result, 1);
        if (completion.buffer)
            mr_loop_give_back(driver_loop(c.d), completion.buffer);
    }
    mr_token cancelled = start(c.d, request_of(c.handle, memory));
    run_for_ms(c.d, 5);
    mr_loop_cancel(driver_loop(c.d), cancelled);
    check_nothing_borrowed(finish(c.d, cancelled), -ECANCELED);
    mr_token token = start(c.d, request_of(c.handle, memory));
    run_for_ms(c.d, 5);
    hang_up(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

static mr_request recv_into(mr_handle handle, void *memory)
{
    return recv_request(handle, memory, 1);
}

static mr_request recv_vector_into(mr_handle handle, void *memory)
{
    struct iovec *element = memory;
    *element = (struct iovec){element + 1, 1};
    return vector_request(MR_RECV_VECTOR, handle, element, 1);
}

static mr_request recv_borrowed(mr_handle handle, void *memory)
{
    (void)memory;
    return borrowing_request(handle, 1);
}

static void a_receive_waits(void)
{
    receives_wait(recv_into);
}

static void a_receive_into_a_vector_waits(void)
{
    receives_wait(recv_vector_into);
}

static void a_receive_into_a_borrowed_buffer_waits(void)
{
    receives_wait(recv_borrowed);
}

static void without_buffer_rings_it_waits_too(void)
{
    mr_io_uring_without_buffer_rings = true;
    receives_wait(recv_borrowed);
}

/* The queue has the refusal of a datagram. */
static void a_socket_that_is_shut_has_an_end(void)
{
    mr_request (*const requests[])(mr_handle handle, void *memory) = {recv_into, recv_vector_into, recv_borrowed};
    char memory[sizeof(struct iovec) + 8];
    if (conform_backend == MR_BACKEND_SIM)
        SKIP("simulated sockets have no queue of errors");
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        driver *d = driver_new();
        int number = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), on = 1;
        struct sockaddr_in nobody = dead_address();
        MUST(setsockopt(number, IPPROTO_IP, IP_RECVERR, &on, sizeof on));
        MUST(connect(number, (struct sockaddr *)&nobody, sizeof nobody));
        MUST(send(number, "x", 1, 0));
        CHECK_EQ(read_now(number, memory, 1), -ECONNREFUSED); /* it has arrived, and stays in the queue */
        mr_handle handle = adopt(d, number);
        mr_token token = start(d, requests[i](handle, memory));
        CHECK_STAYS_PENDING(d, token);
        CHECK_EQ(perform(d, shutdown_request(handle, SHUT_RD)).result, 0);
        check_nothing_borrowed(finish(d, token), 0);
        CHECK_EQ(perform(d, close_request(handle)).result, 0);
        driver_free(d);
    }
}

enum { SENDING_KINDS = 4 };

/* A request of the given kind. */
static mr_request sending_request(mr_handle handle, int kind, struct iovec *element, int file)
{
    mr_request request = send_request(handle, element->iov_base, element->iov_len);
    switch (kind) {
    case 0:
        return request;
    case 1:
        return with_flags(request, MR_ALL);
    case 2:
        return vector_request(MR_SEND_VECTOR, handle, element, 1);
    default:
        request.kind = MR_SEND_FILE;
        request.buffer = NULL;
        request.file = file;
        return request;
    }
}

static void a_send_waits(void)
{
    int file = file_with("hello", 5);
    for (int kind = 0; kind < SENDING_KINDS; kind++) {
        struct iovec element = {"hello", 5};
        connection c = connection_with_error();
        for (int i = 0; i < 3; i++) {
            fill(c.number);
            mr_token token = start(c.d, sending_request(c.handle, kind, &element, file));
            check_costs_nothing(c.d, token, 0);
            CHECK_EQ(finish_while_read(c.d, token, c.peer).result, 5);
        }
        driver_free(c.d);
    }
    close_file(file);
}

static void sends_that_wait_can_be_ended(void)
{
    int file = file_with("hello", 5);
    for (int kind = 0; kind < SENDING_KINDS; kind++) {
        struct iovec elements[] = {{"hello", 5}, {"hello", 5}, {"hello", 5}};
        connection c = connection_with_error();
        fill(c.number);
        mr_token first = start(c.d, sending_request(c.handle, kind, &elements[0], file));
        mr_token second = start(c.d, sending_request(c.handle, kind, &elements[1], file));
        mr_token third = start(c.d, with_deadline(sending_request(c.handle, kind, &elements[2], file), in_ms(20)));
        run_for_ms(c.d, 5);
        mr_loop_cancel(driver_loop(c.d), second);
        CHECK_EQ(finish(c.d, second).result, -ECANCELED);
        CHECK_EQ(finish(c.d, third).result, -ETIMEDOUT);
        CHECK_STAYS_PENDING(c.d, first);
        reset(c.peer);
        check_broken(finish(c.d, first).result);
        driver_free(c.d);
    }
    close_file(file);
}

/* One operation uses all the free space or a part of it. The next event reaches the others. */
static void many_sends_wait(void)
{
    enum { COUNT = 10, SIZE = 200000 };
    connection c = connection_with_error();
    unsigned char *data = calloc(1, SIZE);
    mr_token tokens[COUNT];
    size_t total = 0, filled = fill(c.number);
    for (int i = 0; i < COUNT; i++)
        tokens[i] = start(c.d, send_all_request(c.handle, data, i % 2 ? 1 : SIZE));
    for (int rounds = 0; total < filled + COUNT / 2 * (SIZE + 1) && rounds < 10000; rounds++) {
        run_for_ms(c.d, 1);
        total += drain(c.peer);
    }
    CHECK_EQ(total, filled + COUNT / 2 * (SIZE + 1));
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c.d, tokens[i]).result, i % 2 ? 1 : SIZE);
    free(data);
    driver_free(c.d);
}

const conform_case error_queue_cases[] = {
    CASE(a_receive_waits),
    CASE(a_receive_into_a_vector_waits),
    CASE(a_receive_into_a_borrowed_buffer_waits),
    CASE(without_buffer_rings_it_waits_too),
    CASE(a_socket_that_is_shut_has_an_end),
    CASE(a_send_waits),
    CASE(sends_that_wait_can_be_ended),
    CASE(many_sends_wait),
    {0},
};
