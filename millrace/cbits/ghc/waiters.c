/* waiters.c: see waiters.h. */
#include "waiters.h"

#include "layout.h"

#if MRH_LAYOUT_IS_TESTED

#include <stdbool.h>

/* A parked connection of the web server has 504 bytes of stack. The first frames are needed when the thread
 * runs, the others when it parks again: then threadPaused in GHC's runtime visits all of them. */
enum { STACK_BYTES = 576, LINE_BYTES = 64, HELD_WORDS = 32, BATCH = 256 };

/* Follows, for a batch of places, the pointers from MVar (the constructor) to MVar#, queue, thread and stack. */
typedef struct trail {
    const StgClosure *at[BATCH];
    int count;
} trail;

/* GCC 12 may remove a loop that only prefetches. The asm statement prevents that. */
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

/* Replaces each closure by the next one, and prefetches that. Drops those that have none. */
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

/* An untagged pointer may lead to a thunk, which contains no MVar#. */
static const StgClosure *variable_of(const StgClosure *box)
{
    return GET_CLOSURE_TAG(box) == 0 ? NULL : UNTAG_CONST_CLOSURE(box)->payload[0];
}

/* If no thread waits, the head is stg_END_TSO_QUEUE_closure, which is a static closure. */
static const StgClosure *queue_of(const StgClosure *variable)
{
    const StgClosure *head = (const StgClosure *)((const StgMVar *)variable)->head;
    return head == (const StgClosure *)&stg_END_TSO_QUEUE_closure ? NULL : head;
}

/* A thread that has stopped waiting leaves its queue entry behind, with another info pointer. Skip such entries. */
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

/* Guesses whether a word points into the heap: yes if it points into the same terabyte as the stack. */
static bool is_heap(StgWord word, const StgStack *stack)
{
    return (word ^ (StgWord)stack) >> 40 == 0;
}

/* Prefetches what the first frames point to, such as the records of the connection. Unlike the other functions this one
 * reads the frames, so it must stop at the end of the stack. It reads `sp` once, because another capability may be unwinding
 * the stack. */
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
