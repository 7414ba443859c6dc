/* exhaustion.c: MR_ACCEPT when the process has no descriptor left for the connection. */
#include "../system/calls.h"
#include "conform.h"

#include <sys/resource.h>

/* Makes the next new descriptor fail with EMFILE; returns the limit to restore. */
static struct rlimit take_descriptors_away(void)
{
    struct rlimit limit, none;
    MUST(system_getrlimit(&limit));
    int lowest_free = MUST(system_eventfd(0, 0));
    system_close(lowest_free);
    none = limit;
    none.rlim_cur = (rlim_t)lowest_free;
    MUST(system_setrlimit(&none));
    CHECK_EQ(system_eventfd(0, 0), -1);
    CHECK_EQ(errno, EMFILE);
    return limit;
}

typedef struct pressed_listener {
    driver *d;
    mr_handle handle;
    struct rlimit limit;
} pressed_listener;

/* A listener with a connection in its queue that nobody can accept. */
static pressed_listener new_pressed_listener(void)
{
    pressed_listener p = {.d = driver_new()};
    struct sockaddr_in address;
    p.handle = adopt(p.d, tcp_listener(5, &address));
    connect_to(&address);
    run_for_ms(p.d, 1); /* so that the backend has opened all descriptors that it needs */
    p.limit = take_descriptors_away();
    return p;
}

static void give_descriptors_back(const pressed_listener *p)
{
    MUST(system_setrlimit(&p->limit));
}

static void without_descriptors_it_backs_off_and_recovers(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    uint64_t before = counters_of(p.d).system_calls;
    run_for_ms(p.d, 300);
    /* 10 + 20 + 40 + 80 + 160 ms: five attempts, each with a handful of calls around it. */
    CHECK_LE(counters_of(p.d).system_calls - before, 60);
    CHECK_LE(counters_of(p.d).resubmissions, 8);
    while (counters_of(p.d).resubmissions < 4) /* on a machine that is busy they come later */
        run_for_ms(p.d, 50);
    CHECK(!has_arrived(p.d, token));
    give_descriptors_back(&p);
    uint64_t restored_ns = clock_ns();
    CHECK_GE(finish(p.d, token).result, 0);
    CHECK_LT(clock_ns() - restored_ns, 2 * NS_PER_SECOND);
    driver_free(p.d);
}

/* As above, but the connection comes when the accept is parked already. */
static void a_parked_accept_backs_off_too(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_token token = start(d, accept_request(adopt(d, tcp_listener(5, &address)), NULL));
    run_for_ms(d, 5);
    int client = tcp_socket();
    struct rlimit limit = take_descriptors_away();
    CHECK_EQ(begin_to_connect(client, &address), -EINPROGRESS);
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 150);
    /* io_uring takes the limit when an operation is submitted, so this one may have slipped through. */
    if (!has_arrived(d, token))
        CHECK_LE(counters_of(d).system_calls - before, 50);
    MUST(system_setrlimit(&limit));
    CHECK_GE(finish(d, token).result, 0);
    driver_free(d);
}

/* An accept that is submitted while others back off is tried at once: all connections are already in the queue, and no
 * event will report them again. */
static void accepts_do_not_wait_for_those_that_back_off(void)
{
    enum { ACCEPTS = 3 };
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle handle = adopt(d, tcp_listener(5, &address));
    mr_token tokens[ACCEPTS];
    for (int i = 0; i < ACCEPTS; i++)
        connect_to(&address);
    run_for_ms(d, 1);
    struct rlimit limit = take_descriptors_away();
    for (int i = 0; i < ACCEPTS; i++) {
        tokens[i] = start(d, accept_request(handle, NULL));
        run_for_ms(d, 35);
    }
    MUST(system_setrlimit(&limit));
    for (int i = 0; i < ACCEPTS; i++)
        CHECK_GE(finish(d, tokens[i]).result, 0);
    driver_free(d);
}

/* How late the end at a deadline between the attempts after 310 and after 510 ms is. */
static uint64_t lateness_of_deadline_ns(void)
{
    pressed_listener p = new_pressed_listener();
    uint64_t deadline_ns = in_ms(350);
    mr_token token = start(p.d, with_deadline(accept_request(p.handle, NULL), deadline_ns));
    CHECK_EQ(finish(p.d, token).result, -ETIMEDOUT);
    uint64_t now_ns = clock_ns();
    CHECK_GE(now_ns, deadline_ns);
    give_descriptors_back(&p);
    driver_free(p.d);
    return now_ns - deadline_ns;
}

/* It does not wait for the next attempt. One success in ten tries is enough, because this machine may be busy. */
static void backing_off_ends_at_the_deadline(void)
{
    for (int tries = 1; lateness_of_deadline_ns() >= 130 * NS_PER_MS; tries++)
        CHECK_LT(tries, 10);
}

static void a_deadline_set_while_backing_off_counts(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 100);
    mr_loop_update(driver_loop(p.d), token, in_ms(1));
    CHECK_EQ(finish(p.d, token).result, -ETIMEDOUT);
    give_descriptors_back(&p);
    driver_free(p.d);
}

/* At the time of the next attempt: 200 ms away by then. */
static uint64_t lateness_of_moved_deadline_ns(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 600);
    uint64_t deadline_ns = in_ms(20);
    mr_loop_update(driver_loop(p.d), token, deadline_ns);
    CHECK_EQ(finish(p.d, token).result, -ETIMEDOUT);
    uint64_t late_ns = clock_ns() - deadline_ns;
    give_descriptors_back(&p);
    driver_free(p.d);
    return late_ns;
}

static void a_deadline_moved_while_backing_off_is_kept(void)
{
    for (int tries = 1; lateness_of_moved_deadline_ns() >= 15 * NS_PER_MS; tries++)
        CHECK_LT(tries, 10);
}

static void backing_off_can_be_cancelled(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 50);
    mr_loop_cancel(driver_loop(p.d), token);
    CHECK_EQ(finish(p.d, token).result, -ECANCELED);
    give_descriptors_back(&p);
    driver_free(p.d);
}

/* Only this operation may have been woken for the connection: see shared_listener.c. */
static void one_that_ends_while_it_backs_off_looks_once_more(void)
{
    for (int i = 0; i < 3; i++) {
        pressed_listener p = new_pressed_listener();
        mr_token token = start(p.d, accept_request(p.handle, NULL));
        while (counters_of(p.d).resubmissions == 0)
            poll_once(p.d);
        give_descriptors_back(&p);
        if (i == 0)
            mr_loop_cancel(driver_loop(p.d), token);
        else if (i == 1)
            mr_loop_update(driver_loop(p.d), token, 1);
        else
            CHECK_EQ(perform(p.d, close_request(p.handle)).result, 0);
        CHECK_GE(finish(p.d, token).result, 0);
        CHECK_EQ(counters_of(p.d).resubmissions, 1);
        driver_free(p.d);
    }
}

static void backing_off_ends_at_close(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 50);
    CHECK_EQ(perform(p.d, close_request(p.handle)).result, 0);
    CHECK_EQ(finish(p.d, token).result, -EBADF);
    give_descriptors_back(&p);
    driver_free(p.d);
}

const conform_case exhaustion_cases[] = {
    CASE(without_descriptors_it_backs_off_and_recovers),
    CASE(a_parked_accept_backs_off_too),
    CASE(accepts_do_not_wait_for_those_that_back_off),
    CASE(backing_off_ends_at_the_deadline),
    CASE(a_deadline_set_while_backing_off_counts),
    CASE(a_deadline_moved_while_backing_off_is_kept),
    CASE(backing_off_can_be_cancelled),
    CASE(one_that_ends_while_it_backs_off_looks_once_more),
    CASE(backing_off_ends_at_close),
    {0},
};
