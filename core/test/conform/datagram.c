/* datagram.c: MR_RECV and MR_SEND on sockets that keep messages apart. */
#include "../system/calls.h"
#include "conform.h"

static int bound_socket(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int number = MUST(system_socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(system_bind(number, (struct sockaddr *)address, size));
    MUST(system_getsockname(number, (struct sockaddr *)address, &size));
    return number;
}

/* Two sockets that are connected to each other, one for the loop and one for the test. */
static connection datagram_connection(void)
{
    struct sockaddr_in here, there;
    connection c = {.d = driver_new(), .number = bound_socket(&here), .peer = bound_socket(&there)};
    MUST(system_connect(c.peer, (struct sockaddr *)&here, sizeof here));
    c.handle = adopt(c.d, c.number);
    CHECK_EQ(perform(c.d, connect_request(c.handle, &there, sizeof there)).result, 0);
    return c;
}

enum { BUFFER_BYTES = 100 };

static void check_received(const connection *c, size_t size, const char *expected)
{
    char buffer[BUFFER_BYTES];
    CHECK_EQ(perform(c->d, recv_request(c->handle, buffer, size)).result, strlen(expected));
    CHECK_MEMORY(buffer, expected, strlen(expected));
}

static void messages_stay_apart(void)
{
    connection c = datagram_connection();
    char buffer[BUFFER_BYTES];
    write_all(c.peer, "one", 3);
    write_all(c.peer, "another", 7);
    check_received(&c, BUFFER_BYTES, "one");
    check_received(&c, BUFFER_BYTES, "another");
    CHECK_EQ(perform(c.d, send_request(c.handle, "two", 3)).result, 3);
    CHECK_EQ(perform(c.d, send_request(c.handle, "", 0)).result, 0);
    CHECK_EQ(read_some(c.peer, buffer, sizeof buffer), 3);
    CHECK_EQ(read_some(c.peer, buffer, sizeof buffer), 0); /* a message of no bytes, not an end */
    driver_free(c.d);
}

/* A short message does not mean that no other has arrived: the loop finds the second without another event. */
static void what_waits_gets_one_message_each(void)
{
    connection c = datagram_connection();
    char first[100], second[100];
    mr_token one = start(c.d, recv_request(c.handle, first, sizeof first));
    mr_token other = start(c.d, recv_request(c.handle, second, sizeof second));
    CHECK_STAYS_PENDING(c.d, one);
    write_all(c.peer, "a", 1);
    write_all(c.peer, "bc", 2);
    CHECK_EQ(finish(c.d, one).result + finish(c.d, other).result, 3);
    driver_free(c.d);
}

static void what_is_too_long_is_cut_off(void)
{
    connection c = datagram_connection();
    write_all(c.peer, "a message", 9);
    write_all(c.peer, "xyz", 3);
    check_received(&c, 3, "a m");
    check_received(&c, 3, "xyz");
    write_all(c.peer, "a message", 9);
    sleep_ms(5);
    char buffer[3];
    CHECK_EQ(perform(c.d, with_flags(recv_request(c.handle, buffer, 3), MR_NOW)).result, 3);
    driver_free(c.d);
}

static void a_peer_that_is_gone_refuses(void)
{
    connection c = datagram_connection();
    char byte;
    hang_up(c.peer);
    CHECK_EQ(perform(c.d, send_request(c.handle, "x", 1)).result, 1);
    CHECK_EQ(perform(c.d, recv_request(c.handle, &byte, 1)).result, -ECONNREFUSED);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    driver_free(c.d);
}

static void a_receive_can_be_ended(void)
{
    connection c = datagram_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    mr_loop_cancel(driver_loop(c.d), token);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    CHECK_EQ(perform(c.d, with_deadline(recv_request(c.handle, &byte, 1), in_ms(10))).result, -ETIMEDOUT);
    driver_free(c.d);
}

enum { RECEIVING_KINDS = 4 };

/* A request of the given kind. */
static mr_request receiving_request(const connection *c, int kind, struct iovec *element)
{
    switch (kind) {
    case 0:
        return recv_request(c->handle, element->iov_base, element->iov_len);
    case 1:
        return vector_request(MR_RECV_VECTOR, c->handle, element, 1);
    case 2:
        return borrowing_request(c->handle, element->iov_len);
    default:
        return send_then_receive_request(c->handle, borrow_from(c->d), 0, 1);
    }
}

static int64_t received(driver *d, mr_completion completion)
{
    if (completion.buffer)
        mr_loop_give_back(driver_loop(d), completion.buffer);
    return completion.result;
}

/* On Linux a receive that does not wait fails with EAGAIN, although poll reports the socket as ready. */
static void shut_for_reading_it_has_an_end(void)
{
    char buffer[BUFFER_BYTES];
    struct iovec element = {buffer, sizeof buffer};
    if (conform_backend == MR_BACKEND_KQUEUE)
        SKIP("the double of kevent is over sockets of Linux");
    for (int kind = 0; kind < RECEIVING_KINDS; kind++) {
        connection c = datagram_connection();
        mr_completion completion;
        mr_token token = start(c.d, receiving_request(&c, kind, &element));
        CHECK_STAYS_PENDING(c.d, token);
        CHECK(!submit(c.d, shutdown_request(c.handle, SHUT_RD), &completion));
        CHECK_EQ(completion.result, 0);
        CHECK_EQ(received(c.d, finish(c.d, token)), 0);
        CHECK_EQ(received(c.d, perform(c.d, receiving_request(&c, kind, &element))), 0);
        CHECK_EQ(perform(c.d, send_request(c.handle, "x", 1)).result, 1);
        driver_free(c.d);
    }
}

static void what_came_before_the_end_is_received(void)
{
    char buffer[BUFFER_BYTES];
    struct iovec element = {buffer, sizeof buffer};
    if (conform_backend == MR_BACKEND_KQUEUE)
        SKIP("the double of kevent is over sockets of Linux");
    for (int kind = 0; kind < RECEIVING_KINDS; kind++) {
        connection c = datagram_connection();
        write_all(c.peer, "a message", 9);
        CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_RD)).result, 0);
        CHECK_EQ(received(c.d, perform(c.d, receiving_request(&c, kind, &element))), 9);
        CHECK_EQ(received(c.d, perform(c.d, receiving_request(&c, kind, &element))), 0);
        driver_free(c.d);
    }
}

#ifdef __linux__
extern bool mr_io_uring_without_buffer_rings;

static void without_buffer_rings_it_has_an_end_too(void)
{
    mr_io_uring_without_buffer_rings = true;
    shut_for_reading_it_has_an_end();
    what_came_before_the_end_is_received();
}
#endif

const conform_case datagram_cases[] = {
    CASE(messages_stay_apart),
    CASE(what_waits_gets_one_message_each),
    CASE(what_is_too_long_is_cut_off),
    CASE(a_peer_that_is_gone_refuses),
    CASE(a_receive_can_be_ended),
    CASE(shut_for_reading_it_has_an_end),
    CASE(what_came_before_the_end_is_received),
#ifdef __linux__
    CASE(without_buffer_rings_it_has_an_end_too),
#endif
    {0},
};
