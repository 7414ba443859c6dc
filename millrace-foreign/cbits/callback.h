/*
 * callback.h: C function pointers behind which Haskell functions stand, for C code on fibers.
 */
#ifndef MILLRACE_FOREIGN_CALLBACK_H
#define MILLRACE_FOREIGN_CALLBACK_H

#include "kind.h"

#include <HsFFI.h>

typedef struct mrf_callback mrf_callback;

/* NULL without memory. Arguments are described one by one, then it is made callable: */
mrf_callback *mrf_callback_create(unsigned count, mrf_kind result_kind);
void mrf_callback_argument(mrf_callback *callback, unsigned index, mrf_kind kind);

/* The function pointer; NULL if the types make no function. */
void *mrf_callback_finish(mrf_callback *callback, HsStablePtr handler);

/* Nobody may call the pointer any more. The handler is the caller's to free. */
void mrf_callback_destroy(mrf_callback *callback);

#endif
