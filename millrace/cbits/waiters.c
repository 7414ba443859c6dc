/* waiters.c: see waiters.h. */
#include "waiters.h"

/* How much of a stack a thread is likely to return through before it parks again. */
enum { STACK_BYTES = 384, LINE_BYTES = 64, BATCH = 64 };

/* MVar (the constructor), MVar#, its queue, the thread: each is where the next one is written. */
typedef struct trail {
    const StgClosure *at[BATCH];
    int count;
} trail;

static void fetch(const trail *t)
{
    for (int i = 0; i < t->count; i++)
        __builtin_prefetch(t->at[i], 1);
}

/* Goes on to the next closure of each, and asks for it. */
static void follow(trail *t, const StgClosure *(*next)(const StgClosure *))
{
    int kept = 0;
    for (int i = 0; i < t->count; i++) {
        const StgClosure *closure = next(t->at[i]);
        if (closure)
            t->at[kept++] = closure;
    }
    t->count = kept;
    fetch(t);
}

/* An untagged pointer may lead to something that is to be evaluated first, and then there is no MVar# yet. */
static const StgClosure *variable_of(const StgClosure *box)
{
    return GET_CLOSURE_TAG(box) == 0 ? NULL : UNTAG_CONST_CLOSURE(box)->payload[0];
}

/* Nobody may wait, and then the end of the queue stands there, which is in no heap. */
static const StgClosure *queue_of(const StgClosure *variable)
{
    const StgClosure *head = (const StgClosure *)((const StgMVar *)variable)->head;
    return head == (const StgClosure *)&stg_END_TSO_QUEUE_closure ? NULL : head;
}

/* What a thread has left behind that waits no longer is no trail to follow. */
static const StgClosure *thread_of(const StgClosure *queue)
{
    if (queue->header.info != &stg_MVAR_TSO_QUEUE_info)
        return NULL;
    return (const StgClosure *)((const StgMVarTSOQueue *)queue)->tso;
}

static const StgClosure *stack_of(const StgClosure *thread)
{
    return (const StgClosure *)((const StgTSO *)thread)->stackobj;
}

static void fetch_frames(const trail *t)
{
    for (int i = 0; i < t->count; i++)
        for (size_t at = 0; at < STACK_BYTES; at += LINE_BYTES)
            __builtin_prefetch((const char *)((const StgStack *)t->at[i])->sp + at, 1);
}

void mrh_fetch_waiters(StgClosure *const *places, uint32_t first, uint32_t size, const mr_completion *completions,
                       int count)
{
    trail t = {.count = 0};
    for (int i = 0; i < count && t.count < BATCH; i++) {
        uint32_t record = mr_token_slot(completions[i].token); /* odd: a timer */
        uint32_t place = record / 2 - first;
        if (record % 2 == 0 && place < size)
            t.at[t.count++] = places[place];
    }
    fetch(&t);
    follow(&t, variable_of);
    follow(&t, queue_of);
    follow(&t, thread_of);
    follow(&t, stack_of);
    fetch_frames(&t);
}
