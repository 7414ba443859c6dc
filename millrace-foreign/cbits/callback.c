/*
 * callback.c: runs when C calls the pointer of a callback.
 *
 * On the fiber of a call, the Haskell thread that made the call runs the function while the fiber waits. So no Haskell
 * runs on the fiber's stack or carrier. On any other thread it is an ordinary call into Haskell.
 */
#include "callback.h"
#include "call.h"

#include "millrace_check.h"

#include <stdlib.h>

struct mrf_callback {
    ffi_closure *closure;
    void *pointer;
    HsStablePtr handler;
    mrf_kind result_kind;
    unsigned count;
    ffi_cif cif;
    ffi_type *types[];
};

/* Exported by Millrace.Foreign.Internal.Callback. */
void mrf_run_handler(HsStablePtr handler, void **arguments, uint64_t *result);

static void enter(ffi_cif *cif, void *result, void **arguments, void *data)
{
    mrf_callback *callback = data;
    uint64_t slot = 0; /* the result after an exception */
    mrf_call *call = mrf_call_running();
    (void)cif;
    if (call)
        mrf_call_ask(call, &(mrf_frame){callback->handler, arguments, &slot});
    else
        mrf_run_handler(callback->handler, arguments, &slot);
    mrf_return(result, callback->result_kind, slot);
}

mrf_callback *mrf_callback_create(unsigned count, mrf_kind result_kind)
{
    mrf_callback *callback = calloc(1, sizeof *callback + count * sizeof(ffi_type *));
    if (!callback)
        return NULL;
    callback->count = count;
    callback->result_kind = result_kind;
    callback->closure = ffi_closure_alloc(sizeof *callback->closure, &callback->pointer);
    if (!callback->closure) {
        free(callback);
        return NULL;
    }
    return callback;
}

void mrf_callback_argument(mrf_callback *callback, unsigned index, mrf_kind kind)
{
    MR_CHECK(index < callback->count);
    callback->types[index] = mrf_type(kind);
}

void *mrf_callback_finish(mrf_callback *callback, HsStablePtr handler)
{
    callback->handler = handler;
    if (ffi_prep_cif(&callback->cif, FFI_DEFAULT_ABI, callback->count, mrf_type(callback->result_kind),
                     callback->types) != FFI_OK ||
        ffi_prep_closure_loc(callback->closure, &callback->cif, enter, callback, callback->pointer) != FFI_OK)
        return NULL;
    return callback->pointer;
}

void mrf_callback_destroy(mrf_callback *callback)
{
    ffi_closure_free(callback->closure);
    free(callback);
}
