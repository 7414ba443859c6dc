/* waiters.c: see waiters.h. */
#include "waiters.h"

#include "layout.h"

#if MRH_LAYOUT_IS_TESTED

#include <stdbool.h>

/* A parked connection of the web server has 504 bytes of stack. Its first frames are returned through; the others are looked
 * at when it parks again (threadPaused in GHC's runtime goes through all of them). */
enum { STACK_BYTES = 576, LINE_BYTES = 64, HELD_WORDS = 32, BATCH = 256 };

/* MVar (the constructor), MVar#, its queue, the thread: each is where the next one is written. */
typedef struct trail {
    const StgClosure *at[BATCH];
    int count;
} trail;

/* GCC 12 takes a loop that does nothing but prefetch for an empty one, and may remove it; the statement keeps it. */
static inline void fetch_line(const void *at)
{
    __builtin_prefetch(at, 1);
    __asm__ volatile("");
}

static void fetch(const trail *t)
{
    for (int i = 0; i < t->count; i++)
        fetch_line(t->at[i]);
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
            fetch_line((const char *)((const StgStack *)t->at[i])->sp + at);
}

/* Does a word point into the heap? It does if it points to where the stack itself is, as far as a terabyte goes. */
static bool is_heap(StgWord word, const StgStack *stack)
{
    return (word ^ (StgWord)stack) >> 40 == 0;
}

/* What the first frames hold on to: the records of the connection among it. This reads, where all else prefetches: what
 * lies behind the end of a short stack may be no memory. Where the stack begins is read once, because another capability
 * may be unwinding it. */
static void fetch_what_frames_hold(const trail *t)
{
    for (int i = 0; i < t->count; i++) {
        const StgStack *stack = (const StgStack *)t->at[i];
        const StgWord *word = *(const StgWord *const volatile *)&stack->sp;
        const StgWord *end = stack->stack + stack->stack_size;
        if (end - word > HELD_WORDS)
            end = word + HELD_WORDS;
        for (; word < end; word++)
            if (is_heap(*word, stack))
                fetch_line((const void *)*word);
    }
}

void mrh_fetch_waiters(StgClosure *const *places, int count)
{
    if (!mrh_layout_is_trusted())
        return;
    trail t;
    t.count = count < BATCH ? count : BATCH;
    for (int i = 0; i < t.count; i++)
        t.at[i] = places[i];
    fetch(&t);
    follow(&t, variable_of);
    follow(&t, queue_of);
    follow(&t, thread_of);
    follow(&t, stack_of);
    fetch_frames(&t);
    fetch_what_frames_hold(&t);
}

#else

void mrh_fetch_waiters(StgClosure *const *places, int count)
{
    (void)places;
    (void)count;
}

#endif
