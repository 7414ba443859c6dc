/* kind.c: kinds as libffi's types. A slot holds a value at its lowest address: both processors are little-endian. */
#include "kind.h"

#include "millrace_check.h"

#include <string.h>

ffi_type *mrf_type(mrf_kind kind)
{
    static ffi_type *const types[] = {
        [MRF_VOID] = &ffi_type_void,       [MRF_FLOAT] = &ffi_type_float,   [MRF_DOUBLE] = &ffi_type_double,
        [MRF_POINTER] = &ffi_type_pointer, [MRF_INT8] = &ffi_type_sint8,    [MRF_INT16] = &ffi_type_sint16,
        [MRF_INT32] = &ffi_type_sint32,    [MRF_INT64] = &ffi_type_sint64,  [MRF_WORD8] = &ffi_type_uint8,
        [MRF_WORD16] = &ffi_type_uint16,   [MRF_WORD32] = &ffi_type_uint32, [MRF_WORD64] = &ffi_type_uint64,
    };
    MR_CHECK((size_t)kind < sizeof types / sizeof *types); /* Haskell numbers them too: kindCode in Type.hs */
    return types[kind];
}

bool mrf_is_integer(mrf_kind kind)
{
    return kind >= MRF_POINTER;
}

uint64_t mrf_widened(mrf_kind kind, uint64_t slot)
{
    switch (kind) {
    case MRF_INT8:
        return (uint64_t)(int8_t)slot;
    case MRF_INT16:
        return (uint64_t)(int16_t)slot;
    case MRF_INT32:
        return (uint64_t)(int32_t)slot;
    default: /* the rest of the slot is 0 */
        return slot;
    }
}

void mrf_return(void *result, mrf_kind kind, uint64_t slot)
{
    uint64_t wide = mrf_widened(kind, slot);
    if (kind == MRF_FLOAT)
        memcpy(result, &slot, sizeof(float));
    else if (kind != MRF_VOID)
        memcpy(result, &wide, sizeof wide);
}
