/* library_faults.c - functions of libffi and of the fibers as millrace-foreign's C code calls them where calls fail
 * (fault.h). */
#include "fault/fault.h"

#include "millrace_fiber.h"

#include <errno.h>
#include <ffi.h>

/* FAILING(type, name, (parameters), (arguments), result when it fails) */
#define FAILING(type, name, parameters, arguments, value)                    \
    type fault_##name parameters;                                            \
    type fault_##name parameters                                             \
    {                                                                        \
        return fault_is_due(#name, #value) ? (type)(value) : name arguments; \
    }

FAILING(void *, ffi_closure_alloc, (size_t size, void **code), (size, code), NULL)
FAILING(ffi_status, ffi_prep_cif, (ffi_cif * cif, ffi_abi abi, unsigned count, ffi_type *result, ffi_type **arguments),
        (cif, abi, count, result, arguments), FFI_BAD_TYPEDEF)
FAILING(ffi_status, ffi_prep_closure_loc,
        (ffi_closure * closure, ffi_cif *cif, void (*run)(ffi_cif *, void *, void **, void *), void *data, void *code),
        (closure, cif, run, data, code), FFI_BAD_ABI)
FAILING(int, mr_carriers_start, (const mr_carriers_options *options), (options), -ENOMEM)
FAILING(int, mr_event_create, (mr_event * *event), (event), -ENOMEM)
FAILING(int, mr_fiber_spawn, (mr_fiber * *fiber, const mr_fiber_options *options, void *(*run)(void *), void *argument),
        (fiber, options, run, argument), -ENOMEM)
