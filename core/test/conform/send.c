/* send.c: MR_SEND, with and without MR_ALL. */
#include "conform.h"

#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

static void sends_what_fits(void)
{
    connection c = local_connection();
    char received[10] = {0};
    mr_completion completion = perform(c.d, send_request(c.handle, "hello", 5));
    CHECK_EQ(completion.result, 5);
    CHECK_EQ(completion.transferred, 5);
    CHECK_EQ(read_some(c.peer, received, sizeof received), 5);
    CHECK_MEMORY(received, "hello", 5);
    driver_free(c.d);
}

static void nothing_is_sent_at_once(void)
{
    connection c = tcp_connection();
    CHECK_EQ(perform(c.d, send_request(c.handle, "", 0)).result, 0);
    CHECK_EQ(perform(c.d, send_all_request(c.handle, "", 0)).result, 0);
    driver_free(c.d);
}

static void waits_until_writable(void)
{
    connection c = tcp_connection();
    fill(c.number);
    mr_token token = start(c.d, send_request(c.handle, "x", 1));
    CHECK_STAYS_PENDING(c.d, token);
    CHECK_EQ(finish_while_read(c.d, token, c.peer).result, 1);
    driver_free(c.d);
}

static void without_all_a_part_is_enough(void)
{
    enum { SIZE = 8 << 20 };
    connection c = local_connection();
    char *data = calloc(1, SIZE);
    mr_completion completion = perform(c.d, send_request(c.handle, data, SIZE));
    CHECK_GT(completion.result, 0);
    CHECK_LT(completion.result, SIZE);
    CHECK_EQ(completion.result, completion.transferred);
    CHECK_EQ(drain(c.peer), completion.result);
    free(data);
    driver_free(c.d);
}

static void all_goes_through_a_small_buffer(void)
{
    enum { SIZE = 8 << 20 };
    connection c = local_connection();
    unsigned char *data = malloc(SIZE);
    limit_send_buffer(c.number, 4096);
    fill_pattern(data, 0, SIZE);
    slow_reader *reader = slow_reader_start(c.peer);
    mr_completion completion = perform(c.d, send_all_request(c.handle, data, SIZE));
    CHECK_EQ(completion.result, SIZE);
    CHECK_EQ(completion.transferred, SIZE);
    CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_WR)).result, 0);
    CHECK_EQ(slow_reader_finish(reader), SIZE);
    free(data);
    driver_free(c.d);
}

#ifdef __linux__
static int unsent_bytes(int number)
{
    int count;
    if (ioctl(number, SIOCOUTQNSD, &count) < 0)
        SKIP("this system does not tell unsent bytes, as QEMU's user-mode emulation");
    return count;
}
#endif

static void more_goes_with_what_follows(void)
{
    connection c = tcp_connection();
    char received[5];
    CHECK_EQ(perform(c.d, with_flags(send_request(c.handle, "he", 2), MR_MORE)).result, 2);
#ifdef __linux__
    if (conform_backend != MR_BACKEND_SIM)
        CHECK_EQ(unsent_bytes(c.number), 2);
#endif
    CHECK_EQ(perform(c.d, send_request(c.handle, "llo", 3)).result, 3);
    for (size_t done = 0; done < sizeof received;)
        done += read_some(c.peer, received + done, sizeof received - done);
    CHECK_MEMORY(received, "hello", 5);
    driver_free(c.d);
}

/* Starts an MR_ALL send that cannot complete, of which a part is sent. */
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
        connection c = tcp_connection();
        mr_token token = start_endless(c.d, c.handle, data, SIZE);
        if (i == 0)
            mr_loop_cancel(driver_loop(c.d), token);
        if (i == 1)
            mr_loop_update(driver_loop(c.d), token, in_ms(2));
        if (i == 2)
            CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
        mr_completion completion = finish(c.d, token);
        CHECK_EQ(completion.result, errors[i]);
        CHECK_GT(completion.transferred, 0);
        CHECK_LT(completion.transferred, SIZE);
        for (size_t received = 0; received < completion.transferred;)
            received += read_some(c.peer, data, completion.transferred - received);
        sleep_ms(5);
        CHECK_EQ(drain(c.peer), 0);
        driver_free(c.d);
    }
    free(data);
}

static void all_ends_when_the_peer_goes(void)
{
    enum { SIZE = 16 << 20 };
    connection c = tcp_connection();
    char *data = calloc(1, SIZE);
    let_broken_pipes_kill();
    mr_token token = start_endless(c.d, c.handle, data, SIZE);
    reset(c.peer);
    mr_completion completion = finish(c.d, token);
    check_broken(completion.result);
    CHECK_GT(completion.transferred, 0);
    CHECK_LT(completion.transferred, SIZE);
    free(data);
    driver_free(c.d);
}

static void broken_pipe_raises_no_signal(void)
{
    connection c = local_connection();
    struct iovec element = {"x", 1};
    let_broken_pipes_kill();
    hang_up(c.peer);
    check_broken(first_refusal(c.d, send_request(c.handle, "x", 1)));
    check_broken(first_refusal(c.d, send_all_request(c.handle, "x", 1)));
    check_broken(first_refusal(c.d, with_flags(send_request(c.handle, "x", 1), MR_NOW)));
    check_broken(first_refusal(c.d, vector_request(MR_SEND_VECTOR, c.handle, &element, 1)));
    driver_free(c.d);
}

static void peer_gone_ends_a_pending_send(void)
{
    connection c = local_connection();
    let_broken_pipes_kill();
    fill(c.number);
    mr_token token = start(c.d, send_request(c.handle, "x", 1));
    CHECK_STAYS_PENDING(c.d, token);
    hang_up(c.peer);
    check_broken(finish(c.d, token).result);
    driver_free(c.d);
}

static void now_does_not_wait(void)
{
    enum { SIZE = 8 << 20 };
    connection c = local_connection();
    char *data = calloc(1, SIZE);
    mr_completion completion;
    CHECK(!submit(c.d, with_flags(send_request(c.handle, data, SIZE), MR_NOW), &completion));
    CHECK_GT(completion.result, 0);
    CHECK_LT(completion.result, SIZE);
    /* Bytes that are on their way to the peer may free space once more. */
    for (unsigned i = 0; i < 100 && completion.result > 0; i++) {
        fill(c.number);
        CHECK(!submit(c.d, with_flags(send_request(c.handle, data, SIZE), MR_NOW), &completion));
    }
    CHECK_EQ(completion.result, -EAGAIN);
    CHECK_EQ(completion.transferred, 0);
    free(data);
    driver_free(c.d);
}

/* EAGAIN prevented the rest from being sent; a part was sent. */
static void all_now_tells_what_went(void)
{
    enum { SIZE = 8 << 20 };
    connection c = local_connection();
    char *data = calloc(1, SIZE);
    mr_completion completion;
    CHECK(!submit(c.d, with_flags(send_all_request(c.handle, data, SIZE), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    CHECK_GT(completion.transferred, 0);
    CHECK_EQ(drain(c.peer), completion.transferred);
    CHECK(!submit(c.d, with_flags(send_all_request(c.handle, data, 100), MR_NOW), &completion));
    CHECK_EQ(completion.result, 100);
    free(data);
    driver_free(c.d);
}

/* Sends keep their order when they have to wait, if each begins as soon as the last has ended. */
static void sends_in_a_row_keep_their_order(void)
{
    enum { SIZE = 200000, COUNT = 20 };
    connection c = local_connection();
    unsigned char *data = malloc((size_t)SIZE * COUNT);
    fill_pattern(data, 0, (size_t)SIZE * COUNT);
    slow_reader *reader = slow_reader_start(c.peer);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_EQ(perform(c.d, send_all_request(c.handle, data + i * SIZE, SIZE)).result, SIZE);
    CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_WR)).result, 0);
    CHECK_EQ(slow_reader_finish(reader), (size_t)SIZE * COUNT);
    free(data);
    driver_free(c.d);
}

/* ----------------------------------------------------------------------------- a peer that has ended its stream --- */

enum { SENDING_KINDS = 4, SOME_BYTES = 3000 };

typedef struct outgoing {
    char bytes[SOME_BYTES];
    struct iovec element;
    int file;
} outgoing;

static void make_outgoing(outgoing *o)
{
    fill_pattern(o->bytes, 0, SOME_BYTES);
    o->element = (struct iovec){o->bytes, SOME_BYTES};
    o->file = file_with(o->bytes, SOME_BYTES);
}

/* A request of the given kind. */
static mr_request sending_request(outgoing *o, mr_handle handle, int kind)
{
    mr_request request = send_request(handle, o->bytes, SOME_BYTES);
    switch (kind) {
    case 0:
        return request;
    case 1:
        return with_flags(request, MR_ALL);
    case 2:
        return vector_request(MR_SEND_VECTOR, handle, &o->element, 1);
    default:
        request.kind = MR_SEND_FILE;
        request.buffer = NULL;
        request.file = o->file;
        return request;
    }
}

/* Sends no more and reads slowly, as a client of a large download may do. */
static connection connection_to_slow_end(void)
{
    connection c = local_connection();
    fill(c.number);
    end_stream(c.peer);
    return c;
}

static void waiting_to_send_after_its_end_costs_nothing(void)
{
    for (int kind = 0; kind < SENDING_KINDS; kind++) {
        outgoing o;
        make_outgoing(&o);
        connection c = connection_to_slow_end();
        mr_token token = start(c.d, sending_request(&o, c.handle, kind));
        uint64_t before = counters_of(c.d).system_calls;
        int threads = threads_of_process();
        run_for_ms(c.d, 50);
        CHECK(!has_arrived(c.d, token));
        CHECK_LE(counters_of(c.d).system_calls - before, 30);
        CHECK_EQ(threads_of_process(), threads);
        CHECK_GT(finish_while_read(c.d, token, c.peer).result, 0);
        driver_free(c.d);
        close_file(o.file);
    }
}

static void waiting_to_send_after_its_end_can_be_ended(void)
{
    for (int kind = 0; kind < SENDING_KINDS; kind++) {
        outgoing o;
        make_outgoing(&o);
        connection c = connection_to_slow_end();
        mr_token first = start(c.d, sending_request(&o, c.handle, kind));
        mr_token second = start(c.d, sending_request(&o, c.handle, kind));
        mr_token third = start(c.d, with_deadline(sending_request(&o, c.handle, kind), in_ms(20)));
        run_for_ms(c.d, 5);
        mr_loop_cancel(driver_loop(c.d), second);
        CHECK_EQ(finish(c.d, second).result, -ECANCELED);
        CHECK_EQ(finish(c.d, third).result, -ETIMEDOUT);
        CHECK_STAYS_PENDING(c.d, first);
        CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
        CHECK_EQ(finish(c.d, first).result, -EBADF);
        driver_free(c.d);
        close_file(o.file);
    }
}

static void all_arrives_after_its_end(void)
{
    enum { COUNT = 5, TOTAL = 300000 };
    driver *d = driver_new();
    unsigned char *data = malloc(TOTAL);
    mr_handle handles[COUNT];
    slow_reader *readers[COUNT];
    mr_completion completions[COUNT];
    bool is_pending[COUNT];
    fill_pattern(data, 0, TOTAL);
    for (int i = 0; i < COUNT; i++) {
        int pair[2];
        local_pair(pair);
        limit_send_buffer(pair[0], 4096);
        end_stream(pair[1]);
        handles[i] = adopt(d, pair[0]);
        readers[i] = slow_reader_start(pair[1]);
        is_pending[i] = submit(d, send_all_request(handles[i], data, TOTAL), &completions[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(is_pending[i] ? finish(d, completions[i].token).result : completions[i].result, TOTAL);
        CHECK_EQ(perform(d, close_request(handles[i])).result, 0);
        CHECK_EQ(slow_reader_finish(readers[i]), TOTAL);
    }
    free(data);
    driver_free(d);
}

const conform_case send_cases[] = {
    CASE(sends_what_fits),
    CASE(nothing_is_sent_at_once),
    CASE(waits_until_writable),
    CASE(without_all_a_part_is_enough),
    CASE(more_goes_with_what_follows),
    CASE(all_goes_through_a_small_buffer),
    CASE(all_reports_progress_with_its_error),
    CASE(all_ends_when_the_peer_goes),
    CASE(broken_pipe_raises_no_signal),
    CASE(peer_gone_ends_a_pending_send),
    CASE(now_does_not_wait),
    CASE(all_now_tells_what_went),
    CASE(sends_in_a_row_keep_their_order),
    CASE(waiting_to_send_after_its_end_costs_nothing),
    CASE(waiting_to_send_after_its_end_can_be_ended),
    CASE(all_arrives_after_its_end),
    {0},
};
