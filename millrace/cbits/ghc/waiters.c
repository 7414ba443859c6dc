/* waiters.c: see waiters.h. */
#include "waiters.h"

#include "layout.h"

#if MRH_LAYOUT_IS_KNOWN

#include <stdbool.h>

/* A parked connection of the web server has 504 bytes of stack. The first frames are needed when the thread
 * runs, the others when it parks again: then threadPaused in GHC's runtime visits all of them. */
enum { STACK_BYTES = 576, LINE_BYTES = 64, FRAME_WORDS = 32, BATCH = 256 };

/* A batch of closures. Step by step, follow() replaces each MVar (the constructor) by its MVar#, queue, thread and
 * stack. */
typedef struct batch {
    const StgClosure *at[BATCH];
    int count;
} batch;

/* GCC 12 may remove a loop that only prefetches. The asm statement prevents that. */
static inline void fetch_line(const void *at)
{
    __builtin_prefetch(at, 1);
    __asm__ volatile("");
}

static void fetch(const batch *b)
{
    for (int i = 0; i < b->count; i++)
        fetch_line(b->at[i]);
}

/* Replaces each closure by the next one, and prefetches that. Drops those that have none. */
static void follow(batch *b, const StgClosure *(*next)(const StgClosure *))
{
    int kept = 0;
    for (int i = 0; i < b->count; i++) {
        const StgClosure *closure = next(b->at[i]);
        if (closure)
            b->at[kept++] = closure;
    }
    b->count = kept;
    fetch(b);
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

static void fetch_frames(const batch *b)
{
    for (int i = 0; i < b->count; i++)
        for (size_t at = 0; at < STACK_BYTES; at += LINE_BYTES)
            fetch_line((const char *)((const StgStack *)b->at[i])->sp + at);
}

/* Guesses whether a word points into the heap: yes if it points into the same terabyte as the stack. */
static bool is_heap(StgWord word, const StgStack *stack)
{
    return (word ^ (StgWord)stack) >> 40 == 0;
}

/* Prefetches what the first frames point to, such as the records of the connection. Unlike the other functions, this
 * one reads the frames, so it must stop at the end of the stack. It reads `sp` once, because another capability may be
 * unwinding the stack. */
static void fetch_frame_targets(const batch *b)
{
    for (int i = 0; i < b->count; i++) {
        const StgStack *stack = (const StgStack *)b->at[i];
        const StgWord *word = *(const StgWord *const volatile *)&stack->sp;
        const StgWord *end = stack->stack + stack->stack_size;
        if (end - word > FRAME_WORDS)
            end = word + FRAME_WORDS;
        for (; word < end; word++)
            if (is_heap(*word, stack))
                fetch_line((const void *)*word);
    }
}

void mrh_prefetch_waiters(StgClosure *const *variables, int count)
{
    if (!mrh_layout_is_trusted())
        return;
    batch b;
    b.count = count < BATCH ? count : BATCH;
    for (int i = 0; i < b.count; i++)
        b.at[i] = variables[i];
    fetch(&b);
    follow(&b, variable_of);
    follow(&b, queue_of);
    follow(&b, thread_of);
    follow(&b, stack_of);
    fetch_frames(&b);
    fetch_frame_targets(&b);
}

#else

void mrh_prefetch_waiters(StgClosure *const *variables, int count)
{
    (void)variables;
    (void)count;
}

#endif
