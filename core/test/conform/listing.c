/* listing.c: a loop's list of its operations in flight. */
#include "conform.h"

static const mr_pending *listed(const mr_pending *list, size_t count, mr_token token)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].token == token)
            return &list[i];
    return NULL;
}

static void operations_are_listed_until_they_end(void)
{
    connection c = local_connection();
    mr_pending list[8];
    char byte;
    CHECK_EQ(mr_loop_list(driver_loop(c.d), list, 8), 0);
    mr_request receiving = with_deadline(recv_request(c.handle, &byte, 1), in_ms(3600 * 1000));
    mr_request waiting = timeout_request(in_ms(7200 * 1000));
    receiving.user_data = 5;
    waiting.user_data = 6;
    mr_token receive = start(c.d, receiving), timeout = start(c.d, waiting);
    mr_token other = start(c.d, timeout_request(in_ms(3600 * 1000)));
    CHECK_EQ(mr_loop_list(driver_loop(c.d), list, 8), 3);
    const mr_pending *of_receive = listed(list, 3, receive), *of_timeout = listed(list, 3, timeout);
    CHECK(of_receive && of_timeout && listed(list, 3, other));
    CHECK_EQ(of_receive->kind, MR_RECV);
    CHECK_EQ(of_receive->descriptor, c.number);
    CHECK_EQ(of_receive->deadline_ns, receiving.deadline_ns);
    CHECK_EQ(of_receive->user_data, 5);
    CHECK_EQ(of_timeout->kind, MR_TIMEOUT);
    CHECK_EQ(of_timeout->descriptor, -1);
    CHECK_EQ(of_timeout->user_data, 6);
    CHECK_GE(of_timeout->deadline_ns, waiting.deadline_ns);
    mr_loop_cancel(driver_loop(c.d), other);
    CHECK_EQ(finish(c.d, other).result, -ECANCELED);
    CHECK_EQ(mr_loop_list(driver_loop(c.d), list, 8), 2);
    mr_loop_cancel(driver_loop(c.d), receive);
    mr_loop_cancel(driver_loop(c.d), timeout);
    CHECK_EQ(finish(c.d, receive).result, -ECANCELED);
    CHECK_EQ(finish(c.d, timeout).result, -ECANCELED);
    CHECK_EQ(mr_loop_list(driver_loop(c.d), list, 8), 0);
    driver_free(c.d);
}

/* The function returns the number of all operations, and writes nothing beyond the end of the list. */
static void a_list_may_be_short(void)
{
    driver *d = driver_new();
    connection c = {.d = d};
    int pair[2];
    char byte;
    mr_token tokens[4];
    local_pair(pair);
    c.handle = adopt(d, pair[0]);
    for (int i = 0; i < 2; i++)
        tokens[i] = start(d, recv_request(c.handle, &byte, 1));
    for (int i = 2; i < 4; i++)
        tokens[i] = start(d, timeout_request(in_ms(3600 * 1000)));
    for (size_t capacity = 0; capacity <= 4; capacity++) {
        mr_pending list[5] = {{.user_data = 0}};
        list[capacity].user_data = 99;
        CHECK_EQ(mr_loop_list(driver_loop(d), list, capacity), 4);
        CHECK_EQ(list[capacity].user_data, 99);
        for (size_t i = 0; i < capacity; i++)
            CHECK(list[i].token != 0);
    }
    for (int i = 0; i < 4; i++) {
        mr_loop_cancel(driver_loop(d), tokens[i]);
        CHECK_EQ(finish(d, tokens[i]).result, -ECANCELED);
    }
    driver_free(d);
}

const conform_case listing_cases[] = {
    CASE(operations_are_listed_until_they_end),
    CASE(a_list_may_be_short),
    {0},
};
