/* capability.c: see capability.h. Must not know: GHC. */
#include "capability.h"

#include "ghc/capabilities.h"
#include "ghc/scheduler.h"
#include "ghc/thread.h"
#include "millrace_check.h"
#include "simulation.h"
#include "staying.h"
#include "system.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct attachment {
    Capability *capability;
    mr_loop *loop;
    uint32_t number;
} attachment;

static mr_group *group;             /* once it exists, only process_group reads it */
static _Atomic int64_t group_epoch; /* the epoch whose loops `group` has */
/* The loops that were created with the group. mrh_create_loop has returned the first `first_loops_taken` of them. */
static mr_loop *first_loops[MR_LOOPS_MAX];
static unsigned first_loop_count, first_loops_taken;
static attachment attachments[MR_LOOPS_MAX];
static atomic_uint attachment_count;
static _Atomic(mr_loop *) loops[MR_LOOPS_MAX]; /* by index in the group, for tokens */
static _Atomic int64_t epoch;

/* The loop of the capability on which a simulation runs. Only managers still use that capability's real loop. */
static attachment simulated;

/* A cache: an OS thread mostly serves one capability. `view` changes with every fork and every simulation, which makes
 * the cached attachment invalid. */
static _Thread_local attachment last;
static _Thread_local int64_t last_view;
static _Atomic int64_t view;

static void note_fork(void)
{
    atomic_fetch_add(&epoch, 1);
    atomic_fetch_add(&view, 1);
    atomic_store(&attachment_count, 0);
    simulated = (attachment){0};
    atomic_store(&loops[MRH_SIMULATED_LOOP], NULL);
    mrh_simulation_forget();
}

void mrh_attach_simulation(mr_loop *loop)
{
    simulated = (attachment){.capability = loop ? mrh_capability_here() : NULL, .loop = loop};
    atomic_store(&loops[MRH_SIMULATED_LOOP], loop);
    atomic_fetch_add(&view, 1);
}

bool mrh_is_simulated_here(void)
{
    return simulated.loop && simulated.capability == mrh_capability_here();
}

static void reset_after_fork(int64_t now)
{
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&lock))
        ;
    if (atomic_load(&group_epoch) != now) {
        mr_group_reset_after_fork(group);
        first_loop_count = first_loops_taken = 0;
        for (int i = 0; i < MRH_SIMULATED_LOOP; i++) /* the child may be simulating already */
            atomic_store(&loops[i], NULL);
        atomic_store(&group_epoch, now);
    }
    atomic_flag_clear(&lock);
}

/*
 * The process's group, or NULL. In the child of a fork, the first call resets the group, before the child holds, adopts
 * or closes any descriptor, because the reset drops all holds. note_fork does not reset it: a child that only executes
 * another program needs no reset, and the parent's other threads may have been changing their loops.
 */
static mr_group *process_group(void)
{
    int64_t now = atomic_load_explicit(&epoch, memory_order_relaxed);
    if (group && atomic_load_explicit(&group_epoch, memory_order_acquire) != now)
        reset_after_fork(now);
    return group;
}

int mrh_create_group(int backend, unsigned loop_count)
{
    static bool handler_installed;
    if (!handler_installed) {
        int error = mrh_watch_forks(note_fork);
        if (error)
            return error;
        handler_installed = true;
    }
    mrh_prepare_thread_ends();
    unsigned count = loop_count < MRH_SIMULATED_LOOP ? loop_count : MRH_SIMULATED_LOOP;
    int error = mr_group_create_with_loops((mr_backend)backend, count, first_loops, &group);
    if (!error) {
        first_loop_count = count;
        atomic_store(&group_epoch, atomic_load(&epoch));
    }
    return error;
}

bool mrh_has_group(void)
{
    return process_group() != NULL;
}

bool mrh_can_adopt(void)
{
    return process_group() != NULL || mrh_is_simulated_here();
}

int mrh_backend(void)
{
    return (int)mr_group_backend(process_group());
}

int64_t mrh_epoch(void)
{
    return atomic_load(&epoch);
}

int mrh_create_loop(mr_loop **loop)
{
    int error = 0;
    if (first_loops_taken < first_loop_count)
        *loop = first_loops[first_loops_taken++];
    else
        error = mr_loop_create(process_group(), loop);
    if (!error)
        atomic_store(&loops[mr_loop_index(*loop)], *loop);
    return error;
}

void mrh_wake_all(void *of_epoch)
{
    if ((int64_t)(intptr_t)of_epoch != atomic_load(&epoch))
        return;
    mrh_stop_helpers();
    for (int i = 0; i < MRH_SIMULATED_LOOP; i++) {
        mr_loop *loop = atomic_load(&loops[i]);
        if (loop)
            mr_loop_wake(loop);
    }
}

void *mrh_capability(void)
{
    return mrh_capability_here();
}

void mrh_attach(mr_loop *loop, unsigned number, void *capability)
{
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&lock))
        ;
    unsigned count = atomic_load(&attachment_count);
    attachments[count] = (attachment){capability, loop, number};
    atomic_store(&attachment_count, count + 1);
    atomic_flag_clear(&lock);
}

/* Finds the attachment of this capability when the cached one is invalid, or NULL. */
static __attribute__((noinline)) const attachment *find_attachment(Capability *here, int64_t now)
{
    if (mrh_is_simulated_here())
        return &simulated;
    unsigned count = atomic_load(&attachment_count);
    for (unsigned i = 0; i < count; i++) {
        if (attachments[i].capability == here) {
            last = attachments[i];
            last_view = now;
            return &last;
        }
    }
    return NULL;
}

/* Every operation and every timer needs this and what follows, so they must be fast: they are compiled into each
 * caller, which saves a third of their instructions. */
static inline __attribute__((always_inline)) const attachment *attachment_here(void)
{
    Capability *here = mrh_capability_here();
    int64_t now = atomic_load_explicit(&view, memory_order_relaxed);
    return last.capability == here && last_view == now ? &last : find_attachment(here, now);
}

/* This capability's loop, or NULL and the reason: MRH_NO_LOOP or MRH_DISABLED. */
static inline __attribute__((always_inline)) mr_loop *loop_or_refusal(int64_t *refusal)
{
    const attachment *here = attachment_here();
    if (!here) {
        *refusal = MRH_NO_LOOP;
        return NULL;
    }
    if (!mrh_capability_is_enabled(here->number)) {
        *refusal = MRH_DISABLED;
        return NULL;
    }
    return here->loop;
}

static inline __attribute__((always_inline)) mr_loop *loop_here(void)
{
    int64_t refusal;
    return loop_or_refusal(&refusal);
}

/* The loop of a token, or NULL after a fork. */
static mr_loop *loop_of_token(mr_token token)
{
    return atomic_load(&loops[mr_token_loop(token)]);
}

/* As loop_of_token. `is_ours`: whether the caller owns the loop. */
static mr_loop *loop_of(mr_token token, bool *is_ours)
{
    mr_loop *loop = loop_of_token(token);
    *is_ours = loop && loop_here() == loop;
    return loop;
}

static bool is_simulated(const mr_loop *loop)
{
    return loop && loop == simulated.loop;
}

static mr_group *group_of(int descriptor)
{
    return mrh_is_simulated(descriptor) ? mrh_simulation_group() : process_group();
}

int64_t mrh_adopt(int descriptor)
{
    mr_handle handle;
    mr_group *owner = group_of(descriptor);
    int error = owner ? mr_group_adopt(owner, descriptor, &handle) : -EBADF;
    return error ? error : (int64_t)handle;
}

bool mrh_is_open(mr_handle handle)
{
    mr_group *owner = group_of(mr_handle_descriptor(handle));
    return owner && mr_group_is_open(owner, handle);
}

int mrh_hold(mr_handle handle)
{
    mr_group *owner = group_of(mr_handle_descriptor(handle));
    return owner ? mr_group_hold(owner, handle) : -EBADF;
}

void mrh_release_handle(mr_handle handle)
{
    mr_group *owner = group_of(mr_handle_descriptor(handle));
    if (owner)
        mr_group_release(owner, handle);
}

/* This capability's loop if it is in the group of a descriptor, or NULL. */
static mr_loop *loop_here_for(int descriptor)
{
    mr_loop *here = loop_here();
    return is_simulated(here) == mrh_is_simulated(descriptor) ? here : NULL;
}

int mrh_set_deadline(mr_handle handle, int direction, uint64_t deadline_ns)
{
    int number = mr_handle_descriptor(handle);
    mr_group *owner = group_of(number);
    if (!owner)
        return -EBADF;
    return mr_group_set_deadline(owner, loop_here_for(number), handle, (mr_direction)direction, deadline_ns);
}

void mrh_retry_waiting(mr_handle handle)
{
    int number = mr_handle_descriptor(handle);
    mr_group *owner = group_of(number);
    if (owner)
        mr_group_interrupt(owner, loop_here_for(number), handle);
}

/* A simulation's report then says which thread waits. */
static void name_thread(mr_request *request)
{
    request->user_data |= mrh_thread_number() << MRH_THREAD_SHIFT;
}

static int64_t value_of(const mr_completion *completion)
{
    return completion->buffer ? (int64_t)(uintptr_t)completion->buffer : completion->result;
}

int64_t mrh_submit(int kind, unsigned flags, mr_handle handle, void *buffer, uint64_t length, uint64_t deadline_ns,
                   int file, uint64_t offset)
{
    int64_t refusal = MRH_NO_LOOP;
    mr_loop *loop = loop_or_refusal(&refusal);
    if (!loop)
        return refusal;
    mr_request request = {.kind = (mr_kind)kind,
                          .flags = flags,
                          .handle = handle,
                          .buffer = buffer,
                          .length = length,
                          .deadline_ns = deadline_ns,
                          .file = file,
                          .offset = offset};
    if (is_simulated(loop)) {
        name_thread(&request);
        mrh_begin_nursery_block();
    }
    mr_completion completion;
    if (mr_loop_submit(loop, &request, &completion) == MR_DONE)
        return value_of(&completion) * 4 + MRH_DONE;
    mr_token ticket = !is_simulated(loop) && mrh_thread_stays(loop) ? completion.token | MRH_STAYS : completion.token;
    return (int64_t)(ticket << 2) | MRH_PENDING;
}

int64_t mrh_reserve(int kind)
{
    int64_t refusal = MRH_NO_LOOP;
    mr_loop *loop = loop_or_refusal(&refusal);
    mr_token token;
    if (!loop)
        return refusal;
    int error = mr_loop_reserve(loop, (mr_kind)kind, &token);
    return error ? (int64_t)error * 4 + MRH_DONE : (int64_t)(token << 2) | MRH_DONE;
}

/* Limits delays to 292 years. Limits the sum too, because a simulated clock may already be that far. */
static uint64_t moment_after(uint64_t now_ns, int64_t delay_us)
{
    const int64_t limit_us = INT64_MAX / 1000;
    int64_t bounded_us = delay_us < 0 ? 0 : delay_us < limit_us ? delay_us : limit_us;
    uint64_t delay_ns = (uint64_t)bounded_us * 1000;
    return delay_ns < UINT64_MAX - now_ns ? now_ns + delay_ns : UINT64_MAX;
}

static void start(mr_token token, mr_request *request)
{
    bool is_ours;
    mr_loop *loop = loop_of(token, &is_ours);
    if (is_simulated(loop))
        name_thread(request);
    if (is_ours)
        mr_loop_start(loop, token, request);
    else if (loop)
        mr_loop_start_remote(loop, token, request);
}

void mrh_start(mr_token token, int kind, mr_handle handle)
{
    start(token, &(mr_request){.kind = (mr_kind)kind, .handle = handle, .user_data = MRH_CALLBACK});
}

void mrh_start_timer(mr_token token, int64_t delay_us)
{
    start(token, &(mr_request){.kind = MR_TIMEOUT, .deadline_ns = moment_after(mrh_now_ns(), delay_us)});
}

void mrh_cancel(mr_token token)
{
    bool is_ours;
    mr_loop *loop = loop_of(token, &is_ours);
    if (is_ours)
        mr_loop_cancel(loop, token);
    else if (loop)
        mr_loop_cancel_remote(loop, token);
}

/* The delay is measured by the loop's clock, which may be simulated while the thread's is not, or the reverse. */
void mrh_move_timer(mr_token token, int64_t delay_us)
{
    bool is_ours;
    mr_loop *loop = loop_of(token, &is_ours);
    uint64_t now_ns = is_simulated(loop) == mrh_is_simulated_here() ? mrh_now_ns()
                      : is_simulated(loop)                          ? mr_group_now_ns(mrh_simulation_group())
                                                                    : mr_clock_now_ns();
    uint64_t deadline_ns = moment_after(now_ns, delay_us);
    if (is_ours)
        mr_loop_update(loop, token, deadline_ns);
    else if (loop)
        mr_loop_update_remote(loop, token, deadline_ns);
}

/* `here` is the loop of the capability that runs this, or NULL. */
static void release(mr_loop *here, mr_token token)
{
    mr_loop *loop = loop_of_token(token);
    if (is_simulated(loop))
        mrh_begin_nursery_block();
    if (loop && loop == here)
        mr_loop_release(loop, token);
    else if (loop)
        mr_loop_release_remote(loop, token);
}

static void end_wait(mr_loop *here, uint64_t ticket)
{
    if (ticket & MRH_STAYS)
        mrh_thread_let_move();
    release(here, ticket & ~MRH_STAYS);
}

static void give_back(mr_loop *here, mr_buffer *buffer)
{
    if (here && buffer)
        mr_loop_give_back(here, buffer);
    else
        mr_buffer_destroy(buffer);
}

static void take_bytes(mr_loop *here, mr_buffer *buffer, void *destination)
{
    MR_CHECK(buffer->length <= MR_BUFFER_BYTES);
    memcpy(destination, buffer->bytes, buffer->length);
    give_back(here, buffer);
}

void mrh_release(mr_token token)
{
    release(loop_here(), token);
}

void mrh_end_wait(uint64_t ticket)
{
    end_wait(loop_here(), ticket);
}

void mrh_end_receive(uint64_t ticket, mr_buffer *buffer, void *destination)
{
    mr_loop *here = loop_here();
    end_wait(here, ticket);
    take_bytes(here, buffer, destination);
}

void mrh_take_bytes(mr_buffer *buffer, void *destination)
{
    take_bytes(loop_here(), buffer, destination);
}

void mrh_fire_timer(mr_token token)
{
    mr_loop *loop = loop_of_token(token);
    if (loop)
        mr_loop_update_remote(loop, token, 1);
}

bool mrh_stop_timer(mr_token token)
{
    bool is_ours;
    mr_loop *loop = loop_of(token, &is_ours);
    if (is_ours)
        return mr_loop_discard(loop, token);
    if (loop)
        mr_loop_cancel_remote(loop, token);
    return false;
}

/*
 * True if this manager thread may act as the owner of its loop: on the loop's capability always, elsewhere only while
 * setNumCapabilities has switched that capability off, because loop_here then refuses all other threads.
 */
static bool may_own(mr_loop *loop)
{
    const attachment *here = attachment_here();
    if (here && here->loop == loop)
        return true;
    unsigned count = atomic_load(&attachment_count);
    for (unsigned i = 0; i < count; i++)
        if (attachments[i].loop == loop)
            return attachments[i].capability == mrh_capability_here() ||
                   !mrh_capability_is_enabled(attachments[i].number);
    return false;
}

int mrh_poll(mr_loop *loop, mr_completion *completions, int capacity)
{
    if (is_simulated(loop))
        mrh_begin_nursery_block();
    if (!may_own(loop))
        return MRH_NOT_OWNER;
    mrh_end_batch(loop);
    int count = mr_loop_poll(loop, completions, capacity);
    mrh_begin_batch(loop, count);
    for (int i = 0; i < count; i++)
        completions[i].result = value_of(&completions[i]);
    return count;
}

mr_buffer *mrh_borrow_buffer(void)
{
    mr_loop *loop = loop_here();
    return loop ? mr_loop_borrow(loop) : mr_buffer_create();
}

void mrh_return_buffer(mr_buffer *buffer)
{
    give_back(loop_here(), buffer);
}

int mrh_prepare_wait(mr_loop *loop)
{
    if (!may_own(loop))
        return MRH_NOT_OWNER;
    int sleeps = mr_loop_prepare_wait(loop);
    if (sleeps)
        mrh_record_sleep(loop);
    return sleeps;
}

uint64_t mrh_now_ns(void)
{
    if (!mrh_is_simulated_here())
        return mr_clock_now_ns();
    mrh_begin_nursery_block();
    return mr_group_now_ns(mrh_simulation_group());
}
