/* redis.c: the blocking interface of hiredis. */
#include "libraries.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>

enum { CONNECTIONS = 1000 };

static atomic_int connected;

static redisContext *connect_to_server(void)
{
    redisContext *context = redisConnect("127.0.0.1", atoi(setting("MILLRACE_TEST_REDIS_PORT")));
    if (!context || context->err)
        FAIL("redisConnect: %s", context ? context->errstr : "no memory");
    return context;
}

static void *pop_and_wait(void *argument)
{
    redisContext *context = connect_to_server();
    atomic_fetch_add(&connected, 1);
    redisReply *reply = redisCommand(context, "BLPOP list-%d-%d 60", (int)getpid(), (int)(intptr_t)argument);
    if (!reply)
        FAIL("BLPOP: %s", context->errstr);
    CHECK_EQ(reply->type, REDIS_REPLY_ARRAY);
    CHECK_EQ(reply->elements, 2);
    CHECK_EQ(atoi(reply->element[1]->str), (int)(intptr_t)argument * 7);
    freeReplyObject(reply);
    redisFree(context);
    return NULL;
}

static void *push_all(void *argument)
{
    redisContext *context = connect_to_server();
    for (int i = 0; i < CONNECTIONS; i++) {
        redisReply *reply = redisCommand(context, "RPUSH list-%d-%d %d", (int)getpid(), i, i * 7);
        CHECK(reply && reply->type == REDIS_REPLY_INTEGER);
        freeReplyObject(reply);
    }
    redisFree(context);
    return argument;
}

void redis_many_blocked_connections(void)
{
    mr_fiber *fibers[CONNECTIONS];
    for (intptr_t i = 0; i < CONNECTIONS; i++)
        fibers[i] = spawn(pop_and_wait, (void *)i);
    while (atomic_load(&connected) < CONNECTIONS)
        CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    CHECK_LE(os_threads(), 1 + mr_carriers_count() + 4);
    join(spawn(push_all, NULL));
    for (int i = 0; i < CONNECTIONS; i++)
        join(fibers[i]);
}
