/* call.c: passes a call from a Haskell thread to a fiber, and its result back. */
#include "call.h"
#include "waking.h"

#include "millrace_check.h"
#include "millrace_fiber.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    INTEGER_REGISTERS = 6, /* on x86-64; aarch64 has two more */
    CALLS_KEPT = 1024,     /* kept records per capability; each can hold as many arguments as there are registers */
};

struct mrf_call {
    void (*function)(void);
    mr_fiber *fiber;
    mr_event *answered;     /* kept with the record, so that a callback needs no memory */
    const mrf_frame *frame; /* of the callback that is wanted */
    mrf_wanted wanted;      /* with its signal */
    mrf_call *next_kept;
    int home;  /* the capability that keeps it */
    int error; /* errno at the end */
    unsigned count;
    bool needs_libffi;
    mrf_kind kinds[INTEGER_REGISTERS]; /* of the first arguments */
    ffi_cif cif;
    ffi_type *result_type;
    uint64_t result[2]; /* libffi writes at least a register */
    uint64_t *slots;    /* `count` of each of these */
    void **arguments;
    ffi_type **types;
};

int mrf_start_carriers(unsigned count, const char *backend_name)
{
    mr_carriers_options options = {.carriers = count};
    int error = mr_backend_parse(backend_name, &options.backend);
    return error ? error : mr_carriers_start(&options);
}

/* --------------------------------------------------------------------------------------------------- the record --- */

/* The lock is needed because the Haskell thread may have moved to another capability. It is hardly ever contended. */
static struct kept_calls {
    _Alignas(MRF_CACHE_LINE_BYTES) pthread_mutex_t lock;
    mrf_call *first;
    unsigned count;
} kept_calls[MRF_CAPABILITIES_MAX] = {[0 ... MRF_CAPABILITIES_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static struct kept_calls *kept_by(int capability)
{
    return &kept_calls[(unsigned)capability % MRF_CAPABILITIES_MAX];
}

static mrf_call *take_kept(int capability)
{
    struct kept_calls *kept = kept_by(capability);
    pthread_mutex_lock(&kept->lock);
    mrf_call *call = kept->first;
    if (call) {
        kept->first = call->next_kept;
        kept->count--;
    }
    pthread_mutex_unlock(&kept->lock);
    return call;
}

/* Returns false if enough records are kept already. */
static bool keep(mrf_call *call)
{
    struct kept_calls *kept = kept_by(call->home);
    pthread_mutex_lock(&kept->lock);
    bool has_room = kept->count < CALLS_KEPT;
    if (has_room) {
        call->next_kept = kept->first;
        kept->first = call;
        kept->count++;
    }
    pthread_mutex_unlock(&kept->lock);
    return has_room;
}

static mrf_call *allocate(unsigned capacity)
{
    mrf_call *call = malloc(sizeof *call + capacity * (sizeof(uint64_t) + sizeof(void *) + sizeof(ffi_type *)));
    if (call && mr_event_create(&call->answered) != 0) {
        free(call);
        return NULL;
    }
    if (call)
        call->wanted.waiting = NULL;
    return call;
}

mrf_call *mrf_call_create(void (*function)(void), unsigned count, mrf_kind result_kind, int capability)
{
    unsigned capacity = count > INTEGER_REGISTERS ? count : INTEGER_REGISTERS;
    mrf_call *call = capacity == INTEGER_REGISTERS ? take_kept(capability) : NULL;
    if (!call && !(call = allocate(capacity)))
        return NULL;
    *call = (mrf_call){
        .function = function,
        .answered = call->answered,
        .wanted = {.waiting = call->wanted.waiting, .capability = capability},
        .home = capability,
        .count = count,
        .needs_libffi = count > INTEGER_REGISTERS || result_kind == MRF_FLOAT || result_kind == MRF_DOUBLE,
        .result_type = mrf_type(result_kind),
        .slots = (uint64_t *)(call + 1),
    };
    memset(call->slots, 0, count * sizeof *call->slots);
    call->arguments = (void **)(call->slots + count);
    call->types = (ffi_type **)(call->arguments + count);
    return call;
}

HsStablePtr mrf_call_signal(const mrf_call *call)
{
    return call->wanted.waiting;
}

void mrf_call_set_signal(mrf_call *call, HsStablePtr signal)
{
    call->wanted.waiting = signal;
}

void *mrf_call_argument(mrf_call *call, unsigned index, mrf_kind kind)
{
    MR_CHECK(index < call->count);
    if (!mrf_is_integer(kind))
        call->needs_libffi = true;
    if (index < INTEGER_REGISTERS)
        call->kinds[index] = kind;
    call->types[index] = mrf_type(kind);
    return call->arguments[index] = &call->slots[index];
}

void *mrf_call_result(mrf_call *call)
{
    return call->result;
}

static void destroy(mrf_call *call)
{
    if (call->wanted.waiting)
        hs_free_stable_ptr(call->wanted.waiting);
    mr_event_destroy(call->answered);
    free(call);
}

void mrf_call_end(mrf_call *call)
{
    int error = call->error;
    if (call->fiber)
        mr_fiber_detach(call->fiber);
    if (call->count > INTEGER_REGISTERS || !keep(call))
        destroy(call);
    errno = error;
}

/* ---------------------------------------------------------------------------------------------------- the fiber --- */

/*
 * Most functions take integers and pointers in registers. Setting more registers than the function reads does no harm.
 * libffi decides in every call where each argument goes, which took a tenth of the time of a short call.
 */
static void call_by_registers(mrf_call *call)
{
    typedef uint64_t function_of_six(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    uint64_t registers[INTEGER_REGISTERS] = {0};
    for (unsigned i = 0; i < call->count; i++)
        registers[i] = mrf_widened(call->kinds[i], call->slots[i]);
    call->result[0] = ((function_of_six *)call->function)(registers[0], registers[1], registers[2], registers[3],
                                                          registers[4], registers[5]);
}

static void *serve(void *argument)
{
    mrf_call *call = argument;
    if (call->needs_libffi)
        ffi_call(&call->cif, call->function, call->result, call->arguments);
    else
        call_by_registers(call);
    call->error = errno;
    call->frame = NULL;
    mrf_wake(&call->wanted);
    return NULL;
}

int mrf_call_start(mrf_call *call, size_t stack_size_bytes)
{
    if (call->needs_libffi &&
        ffi_prep_cif(&call->cif, FFI_DEFAULT_ABI, call->count, call->result_type, call->types) != FFI_OK)
        return -EINVAL;
    mr_fiber_options options = {
        .name = "fiberCall", .stack_size_bytes = stack_size_bytes, .preferred_carrier = (unsigned)call->home + 1};
    return mr_fiber_spawn(&call->fiber, &options, serve, call);
}

void mrf_call_interrupt(mrf_call *call, int error)
{
    mr_fiber_interrupt(call->fiber, error);
}

/* ---------------------------------------------------------------------------------------------------- callbacks --- */

mrf_call *mrf_call_running(void)
{
    mr_fiber *fiber = mr_fiber_self();
    return fiber ? mr_fiber_argument(fiber, serve) : NULL;
}

const mrf_frame *mrf_call_frame(const mrf_call *call)
{
    return call->frame;
}

void mrf_call_resume(mrf_call *call, int capability)
{
    MR_CHECK(call->frame); /* the fiber waits for the answer to a callback */
    call->wanted.capability = capability;
    mr_event_set(call->answered);
}

/* An interruption must end a wait of the C code, so it is delayed until after this wait. */
static void wait_for_answer(mrf_call *call)
{
    int outcome, interruption = 0;
    while ((outcome = mr_event_wait(call->answered, MR_NO_DEADLINE)) != 0)
        interruption = -outcome;
    mr_event_reset(call->answered);
    if (interruption)
        mr_fiber_interrupt(call->fiber, interruption);
}

void mrf_call_ask(mrf_call *call, const mrf_frame *frame)
{
    int saved_errno = errno;
    call->frame = frame;
    mrf_wake(&call->wanted);
    wait_for_answer(call);
    errno = saved_errno;
}
