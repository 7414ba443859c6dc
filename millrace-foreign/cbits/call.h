/*
 * call.h: a C function called on a fiber while a Haskell thread waits on an MVar.
 *
 * The fiber owns the record from mrf_call_start, or mrf_call_resume, until it wakes the Haskell thread. Otherwise the
 * Haskell thread owns it. Only mrf_call_interrupt may be called by the other side.
 *
 * It has a stable pointer to the MVar () on which the Haskell thread waits, and which waking.h fills. Records with few
 * arguments are kept for later calls, with their empty MVars.
 */
#ifndef MILLRACE_FOREIGN_CALL_H
#define MILLRACE_FOREIGN_CALL_H

#include "kind.h"

#include <HsFFI.h>

typedef struct mrf_call mrf_call;

/* A callback that C requests. */
typedef struct mrf_frame {
    HsStablePtr handler; /* of type Handler in Millrace.Foreign.Internal.Callback */
    void **arguments;
    uint64_t *result;
} mrf_frame;

/* Starts the given number of carriers, or with 0 one per processor, on the named backend. Returns 0, or a negative
 * errno; -EALREADY: they run already. Does not wait for fibers or Haskell. */
int mrf_start_carriers(unsigned count, const char *backend_name);

/* Makes the record for a call of this function from this capability; NULL without memory. Then add the arguments one by
 * one: */
mrf_call *mrf_call_create(void (*function)(void), unsigned count, mrf_kind result_kind, int capability);

/* NULL: set one. The record owns it until the record is freed. */
HsStablePtr mrf_call_signal(const mrf_call *call);
void mrf_call_set_signal(mrf_call *call, HsStablePtr signal);

/* Adds an argument of this kind. Returns where to write it. */
void *mrf_call_argument(mrf_call *call, unsigned index, mrf_kind kind);

/* Runs the call on a fiber. Returns 0, or a negative errno; then no thread is woken. */
int mrf_call_start(mrf_call *call, size_t stack_size_bytes);

/* Returns why the thread was woken: a callback that it must run, or NULL at the end of the call. */
const mrf_frame *mrf_call_frame(const mrf_call *call);

/* Continues the fiber after the callback has run on this capability. */
void mrf_call_resume(mrf_call *call, int capability);

/* Ends the fiber's wait, or its next one, with this errno. May be called until mrf_call_end. */
void mrf_call_interrupt(mrf_call *call, int error);

/* The address of the result. */
void *mrf_call_result(mrf_call *call);

/* Frees or keeps the record, and sets errno to that of the function. A call that was not started can be ended too. */
void mrf_call_end(mrf_call *call);

/* For callback.c, on a fiber: the call that runs on this fiber, or NULL; and a request to its Haskell thread to run a
 * callback. */
mrf_call *mrf_call_running(void);
void mrf_call_ask(mrf_call *call, const mrf_frame *frame);

#endif
