/* driver.c: the driver of conform.h, with its records of the operations that may still complete. */
#include "conform.h"
#ifndef _WIN32
#include "../system/calls.h"
#endif

typedef enum account_state { IDLE, EXPECTED, ARRIVED } account_state;

/* The record of a slot; accounts[mr_token_slot(token)]. */
typedef struct account {
    account_state state;
    mr_token token;
    uint64_t user_data;
    mr_completion completion;
} account;

struct driver {
    mr_group *group;
    mr_loop *loop;
    bool owns_group;
    account *accounts;
    size_t account_count;
};

enum { POLL_BATCH = 64 };

static driver *new_driver(mr_group *group)
{
    driver *d = calloc(1, sizeof *d);
    CHECK(d);
    d->group = group;
    CHECK_EQ(mr_loop_create(group, &d->loop), 0);
    return d;
}

static int create_group(mr_group **group)
{
#ifndef _WIN32
    if (test_machine)
        return mr_machine_group(test_machine, group);
#endif
    return conform_fixes_owners ? mr_group_create_with_owned_loops(conform_backend, 0, NULL, group)
                                : mr_group_create(conform_backend, group);
}

driver *driver_new(void)
{
    mr_group *group;
    CHECK_EQ(create_group(&group), 0);
    CHECK_EQ(mr_group_backend(group), conform_backend);
    mr_group_check_polls(group);
    driver *d = new_driver(group);
    d->owns_group = true;
    return d;
}

driver *driver_new_beside(driver *first)
{
    return new_driver(first->group);
}

void driver_free(driver *d)
{
    poll_once(d);
    for (size_t i = 0; i < d->account_count; i++)
        if (d->accounts[i].state != IDLE)
            FAIL("operation %llx %s", (unsigned long long)d->accounts[i].token,
                 d->accounts[i].state == EXPECTED ? "has not ended" : "has ended and nobody took notice");
    CHECK_EQ(counters_of(d).in_flight, 0);
    CHECK_EQ(counters_of(d).operations, counters_of(d).completions);
    mr_loop_destroy(d->loop);
    if (d->owns_group)
        mr_group_destroy(d->group);
    free(d->accounts);
    free(d);
}

mr_loop *driver_loop(driver *d)
{
    return d->loop;
}

mr_group *driver_group(driver *d)
{
    return d->group;
}

mr_buffer *borrow_from(driver *d)
{
    mr_buffer *buffer = mr_loop_borrow(driver_loop(d));
    CHECK(buffer);
    return buffer;
}

mr_handle adopt(driver *d, int descriptor)
{
    mr_handle handle = 0;
    CHECK_EQ(mr_group_adopt(d->group, descriptor, &handle), 0);
    CHECK_EQ(mr_handle_descriptor(handle), descriptor);
    return handle;
}

static account *account_of(driver *d, mr_token token)
{
    size_t slot = mr_token_slot(token);
    if (slot >= d->account_count) {
        size_t count = slot + 1024;
        d->accounts = realloc(d->accounts, count * sizeof *d->accounts);
        CHECK(d->accounts);
        memset(d->accounts + d->account_count, 0, (count - d->account_count) * sizeof *d->accounts);
        d->account_count = count;
    }
    return &d->accounts[slot];
}

void expect(driver *d, mr_token token, uint64_t user_data)
{
    CHECK_NE(token, 0);
    CHECK_LT(token, 1ll << 60);
    CHECK_EQ(mr_token_loop(token), mr_loop_index(d->loop));
    account *entry = account_of(d, token);
    if (entry->state != IDLE)
        FAIL("token %llx reuses the slot of %llx, which was not released", (unsigned long long)token,
             (unsigned long long)entry->token);
    entry->state = EXPECTED;
    entry->token = token;
    entry->user_data = user_data;
}

void expect_nothing(driver *d, mr_token token)
{
    account *entry = account_of(d, token);
    CHECK_EQ(entry->token, token);
    CHECK_EQ(entry->state, EXPECTED);
    entry->state = IDLE;
    mr_loop_release(d->loop, token);
}

bool submit(driver *d, mr_request request, mr_completion *completion)
{
    memset(completion, 0xaa, sizeof *completion);
    mr_status status = mr_loop_submit(d->loop, &request, completion);
    if (status == MR_PENDING) {
        expect(d, completion->token, request.user_data);
        return true;
    }
    CHECK_EQ(status, MR_DONE);
    CHECK_EQ(completion->user_data, request.user_data);
    return false;
}

mr_token start(driver *d, mr_request request)
{
    mr_completion completion;
    if (!submit(d, request, &completion))
        FAIL("%s was done at once, with %lld", mr_kind_name(request.kind), (long long)completion.result);
    return completion.token;
}

static void book(driver *d, const mr_completion *completion)
{
    account *entry = account_of(d, completion->token);
    if (entry->state != EXPECTED || entry->token != completion->token)
        FAIL("unexpected completion of token %llx with %lld", (unsigned long long)completion->token,
             (long long)completion->result);
    CHECK_EQ(completion->user_data, entry->user_data);
    entry->state = ARRIVED;
    entry->completion = *completion;
}

int poll_once(driver *d)
{
    mr_completion completions[POLL_BATCH];
    int count = mr_loop_poll(d->loop, completions, POLL_BATCH);
    CHECK_GE(count, 0);
    CHECK_LE(count, POLL_BATCH);
    for (int i = 0; i < count; i++)
        book(d, &completions[i]);
    return count;
}

bool has_arrived(driver *d, mr_token token)
{
    account *entry = account_of(d, token);
    return entry->token == token && entry->state == ARRIVED;
}

static void wait_once(driver *d)
{
    if (mr_loop_prepare_wait(d->loop))
        mr_loop_wait(d->loop);
}

mr_completion driver_take(driver *d, mr_token token)
{
    CHECK_EQ(account_of(d, token)->token, token);
    CHECK_NE(account_of(d, token)->state, IDLE);
    while (!has_arrived(d, token))
        if (poll_once(d) == 0)
            wait_once(d);
    account *entry = account_of(d, token);
    entry->state = IDLE;
    return entry->completion;
}

mr_completion driver_finish(driver *d, mr_token token)
{
    mr_completion completion = driver_take(d, token);
    mr_loop_release(d->loop, token);
    return completion;
}

mr_completion driver_finish_while_read(driver *d, mr_token token, int peer)
{
    while (!has_arrived(d, token)) {
        drain(peer);
        run_for_ms(d, 1);
    }
    return driver_finish(d, token);
}

mr_completion driver_perform(driver *d, mr_request request)
{
    mr_completion completion;
    return submit(d, request, &completion) ? driver_finish(d, completion.token) : completion;
}

unsigned run_for_ms(driver *d, unsigned duration_ms)
{
    mr_token end = start(d, timeout_request(in_ms(duration_ms)));
    unsigned polls = 0;
    for (; !has_arrived(d, end); polls++)
        if (poll_once(d) == 0)
            wait_once(d);
    CHECK_EQ(finish(d, end).result, 0);
    return polls;
}

mr_counters counters_of(driver *d)
{
    mr_counters counters;
    mr_loop_counters(d->loop, &counters);
    return counters;
}

/* --------------------------------------------------------------------------------------------------- requests --- */

/* Every request has different user data, so that the driver can distinguish completions. */
static mr_request request_of(mr_kind kind, mr_handle handle, const void *buffer, size_t length)
{
    static _Atomic uint64_t serial = 1u << 20;
    return (mr_request){
        .kind = kind, .handle = handle, .buffer = (void *)(uintptr_t)buffer, .length = length, .user_data = ++serial};
}

mr_request recv_request(mr_handle handle, void *buffer, size_t size)
{
    return request_of(MR_RECV, handle, buffer, size);
}

mr_request borrowing_request(mr_handle handle, size_t size)
{
    return with_flags(recv_request(handle, NULL, size), MR_BORROW);
}

mr_request send_then_receive_request(mr_handle handle, mr_buffer *buffer, size_t offset, size_t size)
{
    mr_request request = request_of(MR_SEND_THEN_RECEIVE, handle, buffer, size);
    request.offset = offset;
    return request;
}

mr_request send_request(mr_handle handle, const void *buffer, size_t size)
{
    return request_of(MR_SEND, handle, buffer, size);
}

mr_request send_all_request(mr_handle handle, const void *buffer, size_t size)
{
    return with_flags(send_request(handle, buffer, size), MR_ALL);
}

mr_request vector_request(mr_kind kind, mr_handle handle, struct iovec *elements, size_t count)
{
    return request_of(kind, handle, elements, count);
}

mr_request accept_request(mr_handle listener, mr_address *address)
{
    return request_of(MR_ACCEPT, listener, address, 0);
}

mr_request connect_request(mr_handle handle, const void *address, socklen_t length)
{
    return request_of(MR_CONNECT, handle, address, length);
}

mr_request wait_request(mr_kind kind, mr_handle handle)
{
    return request_of(kind, handle, NULL, 0);
}

mr_request shutdown_request(mr_handle handle, int how)
{
    return request_of(MR_SHUTDOWN, handle, NULL, (size_t)how);
}

mr_request close_request(mr_handle handle)
{
    return request_of(MR_CLOSE, handle, NULL, 0);
}

mr_request timeout_request(uint64_t deadline_ns)
{
    return with_deadline(request_of(MR_TIMEOUT, 0, NULL, 0), deadline_ns);
}

mr_request with_deadline(mr_request request, uint64_t deadline_ns)
{
    request.deadline_ns = deadline_ns;
    return request;
}

mr_request with_flags(mr_request request, uint32_t flags)
{
    request.flags |= flags;
    return request;
}
