/* token.c: reserving, starting and releasing operations, and when tokens are valid. */
#include "conform.h"

static mr_token reserve_for(driver *d, mr_kind kind)
{
    mr_token token;
    CHECK_EQ(mr_loop_reserve(driver_loop(d), kind, &token), 0);
    return token;
}

static mr_token reserve(driver *d)
{
    return reserve_for(d, MR_RECV);
}

static void start_reserved(driver *d, mr_token token, mr_request request)
{
    expect(d, token, request.user_data);
    mr_loop_start(driver_loop(d), token, &request);
}

static void a_started_operation_arrives_by_poll(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = reserve(c.d);
    write_all(c.peer, "x", 1);
    start_reserved(c.d, token, recv_request(c.handle, &byte, 1));
    CHECK_EQ(counters_of(c.d).in_flight, 1);
    CHECK_EQ(finish(c.d, token).result, 1);

    token = reserve(c.d);
    start_reserved(c.d, token, recv_request(c.handle, &byte, 1));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void so_does_what_is_done_at_once(void)
{
    connection c = local_connection();
    char byte;
    const mr_request requests[] = {
        with_flags(recv_request(c.handle, &byte, 1), MR_NOW),
        shutdown_request(c.handle, SHUT_WR),
        close_request(c.handle),
        recv_request(c.handle, &byte, 1),
        {.kind = MR_KIND_COUNT},
        timeout_request(0),
    };
    const int64_t results[] = {-EAGAIN, 0, 0, -EBADF, -EINVAL, 0};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        mr_token token = reserve_for(c.d, requests[i].kind);
        start_reserved(c.d, token, requests[i]);
        CHECK_EQ(finish(c.d, token).result, results[i]);
    }
    driver_free(c.d);
}

/* A completion that nobody has polled must keep the owner from sleeping. */
static void one_that_is_done_at_once_prevents_sleep(void)
{
    driver *d = driver_new();
    mr_token token = reserve(d);
    run_for_ms(d, 1);
    start_reserved(d, token, (mr_request){.kind = MR_KIND_COUNT});
    CHECK_EQ(mr_loop_prepare_wait(driver_loop(d)), 0);
    CHECK_EQ(finish(d, token).result, -EINVAL);
    driver_free(d);
}

static void a_reservation_can_be_returned(void)
{
    driver *d = driver_new();
    for (int i = 0; i < 10000; i++) {
        mr_token token = reserve(d);
        CHECK_LT(mr_token_slot(token), 10);
        mr_loop_release(driver_loop(d), token);
    }
    CHECK_EQ(counters_of(d).in_flight, 0);
    driver_free(d);
}

static void a_returned_reservation_cannot_be_started(void)
{
    driver *d = driver_new();
    mr_token token = reserve_for(d, MR_TIMEOUT);
    mr_request request = timeout_request(0);
    mr_loop_release(driver_loop(d), token);
    mr_loop_start(driver_loop(d), token, &request);
    mr_token other = start(d, timeout_request(in_ms(2)));
    mr_loop_start(driver_loop(d), token, &request);
    CHECK_EQ(finish(d, other).result, 0); /* a completion of `token` would fail here */
    driver_free(d);
}

static void reservations_differ(void)
{
    enum { COUNT = 3000 };
    driver *d = driver_new();
    static mr_token tokens[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = reserve(d);
        expect(d, tokens[i], 0); /* fails if the slot is in use */
    }
    for (int i = 0; i < COUNT; i++) {
        expect_nothing(d, tokens[i]);
    }
    driver_free(d);
}

static void a_slot_is_not_reused_before_release(void)
{
    enum { COUNT = 500 };
    driver *d = driver_new();
    mr_token kept[COUNT];
    for (int i = 0; i < COUNT; i++) {
        kept[i] = start(d, timeout_request(0));
        CHECK_EQ(take(d, kept[i]).result, 0);
        for (int j = 0; j < i; j++)
            CHECK_NE(mr_token_slot(kept[i]), mr_token_slot(kept[j]));
    }
    for (int i = 0; i < COUNT; i++)
        mr_loop_release(driver_loop(d), kept[i]);
    driver_free(d);
}

static void releasing_twice_is_once(void)
{
    driver *d = driver_new();
    mr_token first = start(d, timeout_request(0));
    CHECK_EQ(finish(d, first).result, 0);
    mr_loop_release(driver_loop(d), first);
    mr_token second = reserve_for(d, MR_TIMEOUT), third = reserve_for(d, MR_TIMEOUT);
    CHECK_NE(mr_token_slot(second), mr_token_slot(third));
    mr_loop_release(driver_loop(d), first);
    mr_token fourth = reserve_for(d, MR_TIMEOUT);
    CHECK_NE(mr_token_slot(second), mr_token_slot(fourth));
    mr_loop_release(driver_loop(d), second);
    mr_loop_release(driver_loop(d), third);
    mr_loop_release(driver_loop(d), fourth);
    driver_free(d);
}

/* Only a polled operation can be released. A pending one must survive a wrong release. */
static void a_pending_token_is_not_released(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    mr_loop_release(driver_loop(c.d), token);
    mr_token other = reserve(c.d);
    CHECK_NE(mr_token_slot(other), mr_token_slot(token));
    mr_loop_release(driver_loop(c.d), other);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void tokens_tell_their_loop(void)
{
    driver *d = driver_new();
    driver *others[5];
    for (uint32_t i = 0; i < 5; i++) {
        others[i] = driver_new_beside(d);
        CHECK_EQ(mr_loop_index(driver_loop(others[i])), i + 1);
        mr_token token = start(others[i], timeout_request(in_ms(1))); /* the driver compares the loop's index */
        mr_loop_cancel(driver_loop(d), token);
        CHECK_EQ(finish(others[i], token).result, 0);
    }
    for (int i = 0; i < 5; i++)
        driver_free(others[i]);
    driver_free(d);
}

/* Generations wrap around; a token stays below its limit and is never 0. The driver checks each. */
static void tokens_stay_in_range(void)
{
    driver *d = driver_new();
    mr_token last = 0;
    for (unsigned i = 0; i < harness_rounds(300000); i++) {
        mr_token token = reserve(d);
        CHECK_NE(token, 0);
        CHECK_NE(token, last);
        CHECK_LT(token, 1ll << 60);
        mr_loop_release(driver_loop(d), token);
        last = token;
    }
    driver_free(d);
}

const conform_case token_cases[] = {
    CASE(a_started_operation_arrives_by_poll),
    CASE(so_does_what_is_done_at_once),
    CASE(one_that_is_done_at_once_prevents_sleep),
    CASE(a_reservation_can_be_returned),
    CASE(a_returned_reservation_cannot_be_started),
    CASE(reservations_differ),
    CASE(a_slot_is_not_reused_before_release),
    CASE(releasing_twice_is_once),
    CASE(a_pending_token_is_not_released),
    CASE(tokens_tell_their_loop),
    CASE(tokens_stay_in_range),
    {0},
};
