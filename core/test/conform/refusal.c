/*
 * refusal.c: a kernel that refuses for a while.
 *
 * io_uring_enter may fail with EBUSY or EAGAIN, but a test cannot cause that. So this program defines liburing's
 * submitting functions itself; the linker prefers them, and they fail on demand. On other backends these cases are
 * ordinary ones with many operations.
 */
#include "conform.h"

#include <dlfcn.h>
#include <liburing.h>

static bool refuses;

/* The lookup is a data pointer to the C standard and a function to POSIX. */
typedef union submit_function {
    void *symbol;
    int (*call)(struct io_uring *ring);
} submit_function;

static int submit_unless_refused(const char *name, struct io_uring *ring)
{
    submit_function real = {.symbol = dlsym(RTLD_NEXT, name)};
    return refuses ? -EBUSY : real.call(ring);
}

int io_uring_submit(struct io_uring *ring)
{
    return submit_unless_refused("io_uring_submit", ring);
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
    return submit_unless_refused("io_uring_submit_and_get_events", ring);
}

/* More than the ring has entries for. */
enum { COUNT = 2500 };

typedef struct crowd {
    driver *d;
    int pair[2];
    mr_handle handle;
    char bytes[COUNT];
    mr_token tokens[COUNT];
} crowd;

static crowd *new_refused_crowd(void)
{
    static crowd c;
    c.d = driver_new();
    local_pair(c.pair);
    c.handle = adopt(c.d, c.pair[0]);
    run_for_ms(c.d, 1);
    refuses = true;
    for (int i = 0; i < COUNT; i++)
        c.tokens[i] = start(c.d, recv_request(c.handle, &c.bytes[i], 1));
    return &c;
}

static void submissions_wait(void)
{
    crowd *c = new_refused_crowd();
    for (int i = 0; i < 10; i++)
        poll_once(c->d);
    refuses = false;
    CHECK_STAYS_PENDING(c->d, c->tokens[COUNT - 1]);
    hang_up(c->pair[1]);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c->d, c->tokens[i]).result, 0);
    driver_free(c->d);
}

static void what_waits_can_be_cancelled(void)
{
    crowd *c = new_refused_crowd();
    for (int i = COUNT - 1; i >= 0; i -= 2)
        mr_loop_cancel(driver_loop(c->d), c->tokens[i]);
    poll_once(c->d);
    for (int i = 0; i < COUNT; i += 2)
        mr_loop_cancel(driver_loop(c->d), c->tokens[i]);
    poll_once(c->d);
    refuses = false;
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c->d, c->tokens[i]).result, -ECANCELED);
    driver_free(c->d);
}

/* Operations in the kernel complete by themselves while their cancellations still wait for queue entries. */
static void cancellations_wait(void)
{
    crowd *c = new_refused_crowd();
    refuses = false;
    run_for_ms(c->d, 5);
    refuses = true;
    for (int i = 0; i < COUNT; i++)
        mr_loop_cancel(driver_loop(c->d), c->tokens[i]);
    hang_up(c->pair[1]);
    for (int i = 0; i < 20; i++)
        poll_once(c->d);
    for (int i = 0; i < COUNT; i++) { /* other operations get the slots meanwhile */
        if (!has_arrived(c->d, c->tokens[i]))
            continue;
        int64_t result = finish(c->d, c->tokens[i]).result;
        CHECK(result == 0 || result == -ECANCELED);
        c->tokens[i] = start(c->d, timeout_request(in_ms(1)));
    }
    poll_once(c->d);
    refuses = false;
    for (int i = 0; i < COUNT; i++) {
        int64_t result = finish(c->d, c->tokens[i]).result;
        CHECK(result == 0 || result == -ECANCELED);
    }
    driver_free(c->d);
}

static void a_close_waits(void)
{
    crowd *c = new_refused_crowd();
    mr_completion closing;
    bool is_pending = submit(c->d, close_request(c->handle), &closing);
    for (int i = 0; i < 10; i++)
        poll_once(c->d);
    CHECK_EQ(is_open(c->pair[0]), is_pending && !has_arrived(c->d, closing.token));
    refuses = false;
    CHECK_EQ(is_pending ? finish(c->d, closing.token).result : closing.result, 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c->d, c->tokens[i]).result, -EBADF);
    driver_free(c->d);
}

/* Even sends that have not reached the ring when they are cancelled are carried out. */
static void send_then_receives_that_wait_are_sent_when_cancelled(void)
{
    crowd *c = new_refused_crowd();
    static mr_token tokens[100];
    enum { TOKENS = sizeof tokens / sizeof *tokens };
    for (int i = 0; i < TOKENS; i++) {
        mr_buffer *buffer = borrow_from(c->d);
        buffer->bytes[0] = 'x';
        tokens[i] = start(c->d, send_then_receive_request(c->handle, buffer, 0, 1));
    }
    for (int i = 0; i < TOKENS; i++)
        mr_loop_cancel(driver_loop(c->d), tokens[i]);
    for (int i = 0; i < TOKENS; i++)
        CHECK_EQ(finish(c->d, tokens[i]).result, -ECANCELED);
    CHECK_EQ(drain(c->pair[1]), TOKENS);
    refuses = false;
    hang_up(c->pair[1]);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c->d, c->tokens[i]).result, 0);
    driver_free(c->d);
}

enum { WAYS_TO_END = 3 };

/* Ends an operation: cancels it, lets its deadline pass, or closes its descriptor. */
static void end_in_way(driver *d, mr_token token, mr_handle handle, int way)
{
    mr_completion closing;
    if (way == 0)
        mr_loop_cancel(driver_loop(d), token);
    else if (way == 1)
        mr_loop_update(driver_loop(d), token, 1);
    else if (submit(d, close_request(handle), &closing))
        CHECK_EQ(finish(d, closing.token).result, 0);
}

static void free_crowd(crowd *c)
{
    refuses = false;
    hang_up(c->pair[1]);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(c->d, c->tokens[i]).result, 0);
    CHECK_EQ(perform(c->d, close_request(c->handle)).result, 0);
    driver_free(c->d);
}

/* A connection may have woken only this operation, before it was restarted: see shared_listener.c. */
static void an_accept_that_waits_looks_before_it_ends(void)
{
    for (int way = 0; way < WAYS_TO_END; way++) {
        crowd *c = new_refused_crowd();
        struct sockaddr_in address;
        mr_handle listener = adopt(c->d, tcp_listener(5, &address));
        mr_token token = start(c->d, accept_request(listener, NULL));
        hang_up(connect_to(&address));
        end_in_way(c->d, token, listener, way);
        int64_t result = finish(c->d, token).result;
        CHECK(result >= 0 || conform_backend != MR_BACKEND_IO_URING);
        free_crowd(c);
    }
}

/* Bytes that have arrived are received, however long the kernel refuses. */
static void a_receive_that_waits_is_tried_when_its_time_is_over(void)
{
    crowd *c = new_refused_crowd();
    int pair[2];
    char byte;
    local_pair(pair);
    mr_handle handle = adopt(c->d, pair[0]);
    mr_token token = start(c->d, recv_request(handle, &byte, 1));
    write_all(pair[1], "x", 1);
    end_in_way(c->d, token, handle, 1);
    CHECK_EQ(finish(c->d, token).result, 1);
    free_crowd(c);
}

const conform_case refusal_cases[] = {
    CASE(submissions_wait),
    CASE(what_waits_can_be_cancelled),
    CASE(cancellations_wait),
    CASE(a_close_waits),
    CASE(send_then_receives_that_wait_are_sent_when_cancelled),
    CASE(an_accept_that_waits_looks_before_it_ends),
    CASE(a_receive_that_waits_is_tried_when_its_time_is_over),
    {0},
};
