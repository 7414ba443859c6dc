/*
 * kind.h: the kinds of arguments and results, with the numbers that Haskell uses.
 */
#ifndef MILLRACE_FOREIGN_KIND_H
#define MILLRACE_FOREIGN_KIND_H

#include <ffi.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order of Millrace.Foreign.Internal.CType's constructors. */
typedef enum mrf_kind {
    MRF_VOID,
    MRF_FLOAT,
    MRF_DOUBLE,
    MRF_POINTER,
    MRF_INT8,
    MRF_INT16,
    MRF_INT32,
    MRF_INT64,
    MRF_WORD8,
    MRF_WORD16,
    MRF_WORD32,
    MRF_WORD64
} mrf_kind;

ffi_type *mrf_type(mrf_kind kind);

/* Whether values of this kind are passed in an integer register: integers and pointers. */
bool mrf_is_integer(mrf_kind kind);

/* The register for an integer of that kind. */
uint64_t mrf_widened(mrf_kind kind, uint64_t slot);

/* A callback's result, as libffi wants it: integers are as wide as a register. */
void mrf_return(void *result, mrf_kind kind, uint64_t slot);

#endif
