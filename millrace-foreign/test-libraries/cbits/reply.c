/* reply.c: what a reply of Redis holds. */
#include <hiredis/hiredis.h>
#include <stdlib.h>

/* The number that BLPOP took from its list; -1 if this is no such reply. */
int test_popped_number(const redisReply *reply)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return -1;
    return atoi(reply->element[1]->str);
}

int test_is_integer(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_INTEGER;
}

int test_has_failed(const redisContext *context)
{
    return !context || context->err;
}
