/*
 * callback.h: C function pointers to Haskell functions, for C code on fibers.
 */
#ifndef MILLRACE_FOREIGN_CALLBACK_H
#define MILLRACE_FOREIGN_CALLBACK_H

#include "kind.h"

#include <HsFFI.h>

typedef struct mrf_callback mrf_callback;

/* Makes a callback; NULL without memory. Then add its arguments one by one and make it callable: */
mrf_callback *mrf_callback_create(unsigned count, mrf_kind result_kind);
void mrf_callback_argument(mrf_callback *callback, unsigned index, mrf_kind kind);

/* Returns the function pointer; NULL if these types are not possible. */
void *mrf_callback_finish(mrf_callback *callback, HsStablePtr handler);

/* Frees a callback. C must not call its pointer any more. The caller frees the handler. */
void mrf_callback_destroy(mrf_callback *callback);

#endif
