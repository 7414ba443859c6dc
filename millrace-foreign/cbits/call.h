/*
 * call.h: a C function called on a fiber while a Haskell thread waits on an MVar.
 *
 * The record belongs to the fiber from mrf_call_start, or mrf_call_resume, until it wakes the Haskell thread; to the
 * Haskell thread otherwise. Only mrf_call_interrupt crosses that line.
 *
 * It has a place, where the Haskell thread waits: a stable pointer to an MVar (), which waking.h has filled. Records of
 * few arguments are kept for other calls, with their places, which are empty then.
 */
#ifndef MILLRACE_FOREIGN_CALL_H
#define MILLRACE_FOREIGN_CALL_H

#include "kind.h"

#include <HsFFI.h>

typedef struct mrf_call mrf_call;

/* What C asks of Haskell when it calls back. */
typedef struct mrf_frame {
    HsStablePtr handler; /* of type Handler in Millrace.Foreign.Internal.Callback */
    void **arguments;
    uint64_t *result;
} mrf_frame;

/* Starts as many carriers as asked for, or with 0 one for each processor, on the backend of that name. 0, or a negative
 * errno; -EALREADY: they run. Does not wait for fibers or for Haskell. */
int mrf_start_carriers(unsigned count, const char *backend_name);

/* A call of this function from this capability, NULL without memory. Arguments are given one by one: */
mrf_call *mrf_call_create(void (*function)(void), unsigned count, mrf_kind result_kind, int capability);

/* NULL: it must be given one. It is the record's until that is freed. */
HsStablePtr mrf_call_place(const mrf_call *call);
void mrf_call_set_place(mrf_call *call, HsStablePtr place);

/* Says what an argument is; returns where to put it. */
void *mrf_call_argument(mrf_call *call, unsigned index, mrf_kind kind);

/* Runs it on a fiber. 0, or a negative errno and nobody is woken. */
int mrf_call_start(mrf_call *call, size_t stack_size_bytes);

/* What woke the thread: a callback, which is then to be run; NULL for the end. */
const mrf_frame *mrf_call_frame(const mrf_call *call);

/* The callback has been run, on this capability. */
void mrf_call_resume(mrf_call *call, int capability);

/* Has the fiber's wait, or its next, end with this errno. Until mrf_call_end. */
void mrf_call_interrupt(mrf_call *call, int error);

/* Where the result is. */
void *mrf_call_result(mrf_call *call);

/* Frees or keeps what ended, and leaves the errno that the function left. A call that was not started may be ended too. */
void mrf_call_end(mrf_call *call);

/* callback.c, on a fiber: the call that this fiber is, or NULL; and having its Haskell thread run a callback. */
mrf_call *mrf_call_running(void);
void mrf_call_ask(mrf_call *call, const mrf_frame *frame);

#endif
