/*
 * sim.c: the backend on a simulated machine.
 *
 * An operation is attempted when it is submitted, unless earlier ones in its direction (reading or writing) still wait.
 * It is attempted again when its file has changed. Its fault, if any, is drawn when it is submitted.
 */
#include "machine_attempt.h"

#include "../../machine/descriptor_table.h"
#include "../../machine/disk.h"
#include "../../machine/file.h"
#include "../../machine/socket.h"
#include "../../machine/socket_calls.h"
#include "../../perform.h"
#include "millrace_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which delayed completion an operation has, if any. */
typedef enum sim_phase {
    GOES_ON,
    DELAYED, /* MR_FAULT_DELAY: it has a result, and completes after a delay */
    ENDING   /* MR_FAULT_LATE_CANCEL: cancelled; it ends with ECANCELED after a delay unless it completes before */
} sim_phase;

/* The backend's data of an operation. */
typedef struct sim_slot {
    int32_t delayed_result; /* the result, in phase DELAYED; see is_not_sent */
    uint8_t fault;          /* an mr_fault that is still to happen */
    uint8_t phase;          /* a sim_phase */
    bool is_not_sent;       /* the result is mr_not_sent(delayed_result), which would not fit */
} sim_slot;

/* The backend's data of a descriptor. */
typedef struct sim_descriptor {
    bool is_watched; /* this loop watches the descriptor's file for changes; only for descriptors with a handle */
} sim_descriptor;

static mr_machine *machine_of(const mr_loop *loop)
{
    return loop->group->machine;
}

static sim_slot *sim_slot_of(const mr_slot *slot)
{
    static_assert(sizeof(sim_slot) <= sizeof slot->backend_data, "it fits");
    return (sim_slot *)&slot->backend_data;
}

static sim_descriptor *sim_descriptor_of(const mr_descriptor *descriptor)
{
    static_assert(sizeof(sim_descriptor) <= sizeof descriptor->backend_data, "it fits");
    return (sim_descriptor *)&descriptor->backend_data;
}

static mr_watcher *watcher_of(const mr_loop *loop)
{
    return loop->backend_state;
}

static mr_fault fault_of(const mr_slot *slot)
{
    return (mr_fault)sim_slot_of(slot)->fault;
}

/* ------------------------------------------------------------------------------------------------------ faults --- */

#define BIT(name) (1u << MR_FAULT_##name)

static unsigned applicable_faults(mr_kind kind)
{
    switch (kind) {
    case MR_ACCEPT:
        return BIT(DELAY) | BIT(NO_DESCRIPTORS) | BIT(NO_BUFFERS) | BIT(INTERRUPTED) | BIT(LATE_CANCEL);
    case MR_CONNECT:
    case MR_WAIT_READABLE:
    case MR_WAIT_WRITABLE:
        return BIT(DELAY) | BIT(INTERRUPTED) | BIT(LATE_CANCEL);
    case MR_RECV:
    case MR_RECV_VECTOR:
        return BIT(SHORT) | BIT(DELAY) | BIT(RESET) | BIT(RESET_AFTER) | BIT(INTERRUPTED) | BIT(LATE_CANCEL);
    case MR_SEND:
    case MR_SEND_VECTOR:
    case MR_SEND_THEN_RECEIVE:
        return BIT(SHORT) | BIT(DELAY) | BIT(RESET) | BIT(RESET_AFTER) | BIT(HALF_CLOSE) | BIT(STALL) |
               BIT(NO_BUFFERS) | BIT(INTERRUPTED) | BIT(LATE_CANCEL);
    case MR_SEND_FILE:
        return BIT(DELAY) | BIT(RESET) | BIT(RESET_AFTER) | BIT(HALF_CLOSE) | BIT(STALL) | BIT(NO_BUFFERS) |
               BIT(INTERRUPTED) | BIT(LATE_CANCEL);
    case MR_READ_FILE:
        return BIT(SHORT) | BIT(DELAY) | BIT(INTERRUPTED) | BIT(IO_ERROR);
    case MR_WRITE_FILE:
        return BIT(SHORT) | BIT(DELAY) | BIT(INTERRUPTED) | BIT(DISK_FULL) | BIT(IO_ERROR);
    case MR_SYNC_FILE:
        return BIT(DELAY) | BIT(INTERRUPTED) | BIT(DISK_FULL) | BIT(IO_ERROR);
    default:
        return 0;
    }
}

/* A datagram is sent and received whole, and has no connection that could break. */
static unsigned applicable_faults_of(mr_machine *machine, const mr_slot *slot)
{
    int error;
    mr_socket *socket = mr_socket_of(machine, mr_slot_number(slot), &error);
    unsigned faults = applicable_faults(slot->request.kind);
    bool is_whole = socket && socket->type == SOCK_DGRAM;
    return is_whole ? faults & (BIT(DELAY) | BIT(NO_BUFFERS) | BIT(INTERRUPTED) | BIT(LATE_CANCEL)) : faults;
}

static void spend_fault(mr_slot *slot)
{
    sim_slot_of(slot)->fault = MR_FAULT_NONE;
}

static mr_socket *connected_socket(mr_machine *machine, const mr_slot *slot)
{
    int error;
    mr_socket *socket = mr_socket_of(machine, mr_slot_number(slot), &error);
    return socket && socket->state == MR_SOCKET_CONNECTED ? socket : NULL;
}

/* Applies a fault before an attempt. Returns 0, or the negative errno with which the attempt fails. */
static int64_t fail_before(mr_machine *machine, mr_slot *slot)
{
    mr_socket *socket = connected_socket(machine, slot);
    mr_fault fault = fault_of(slot);
    switch (fault) {
    case MR_FAULT_RESET:
        if (socket)
            mr_socket_reset(machine, socket);
        break;
    case MR_FAULT_HALF_CLOSE:
        if (socket)
            mr_socket_shutdown(machine, socket, SHUT_WR);
        break;
    case MR_FAULT_IO_ERROR:
        if (slot->request.kind == MR_SYNC_FILE)
            mr_disk_fail_sync(machine, mr_slot_number(slot));
        break;
    case MR_FAULT_NO_DESCRIPTORS:
    case MR_FAULT_NO_BUFFERS:
    case MR_FAULT_DISK_FULL:
    case MR_FAULT_INTERRUPTED:
        break;
    default:
        return 0;
    }
    spend_fault(slot);
    return fault == MR_FAULT_NO_DESCRIPTORS ? -EMFILE
           : fault == MR_FAULT_NO_BUFFERS   ? -ENOBUFS
           : fault == MR_FAULT_DISK_FULL    ? -ENOSPC
           : fault == MR_FAULT_IO_ERROR     ? -EIO
           : fault == MR_FAULT_INTERRUPTED  ? -EINTR
                                            : 0;
}

static void reset_after(mr_machine *machine, const mr_slot *slot)
{
    mr_socket *socket = connected_socket(machine, slot);
    if (socket)
        mr_socket_reset(machine, socket);
}

static void plan_completion(mr_loop *loop, mr_slot *slot)
{
    mr_machine *machine = machine_of(loop);
    mr_machine_schedule(machine, mr_machine_now_ns(machine) + mr_machine_delay_ns(machine),
                        (mr_event){.kind = MR_EVENT_COMPLETION, .loop = loop, .token = slot->token});
}

/* ------------------------------------------------------------------------------------------- try, park, retry --- */

static void note_result(mr_loop *loop, mr_slot *slot, int64_t result)
{
    MR_TRACE(machine_of(loop), "%s %d result %lld", mr_kind_name(slot->request.kind), mr_slot_number(slot),
             (long long)result);
    *sim_slot_of(slot) = (sim_slot){.phase = GOES_ON};
}

static bool settle(mr_loop *loop, mr_slot *slot, int64_t result)
{
    note_result(loop, slot, result);
    return mr_loop_settle(loop, slot, result);
}

/* One attempt, with the operation's fault. */
static int64_t attempt(mr_loop *loop, mr_slot *slot)
{
    mr_machine *machine = machine_of(loop);
    mr_machine_lock(machine);
    int64_t result = fail_before(machine, slot);
    if (!result)
        result = mr_sim_attempt(machine, slot, fault_of(slot));
    mr_machine_unlock(machine);
    return result;
}

static int64_t delayed_result(const mr_slot *slot)
{
    const sim_slot *part = sim_slot_of(slot);
    return part->is_not_sent ? mr_not_sent(part->delayed_result) : part->delayed_result;
}

static bool delay(mr_loop *loop, mr_slot *slot, int64_t result)
{
    mr_fault fault = fault_of(slot);
    if (fault == MR_FAULT_RESET_AFTER)
        reset_after(machine_of(loop), slot);
    if (fault != MR_FAULT_DELAY) {
        note_result(loop, slot, result);
        return false;
    }
    int64_t sent = mr_sent_only(result);
    int64_t kept = sent >= 0 ? sent : result;
    MR_CHECK(kept >= INT32_MIN && kept <= INT32_MAX);
    *sim_slot_of(slot) = (sim_slot){.delayed_result = (int32_t)kept, .phase = DELAYED, .is_not_sent = sent >= 0};
    plan_completion(loop, slot);
    return true;
}

static void park(mr_loop *loop, int number)
{
    mr_file *file = mr_machine_find(machine_of(loop), number);
    mr_descriptor *descriptor = mr_loop_descriptor(loop, number);
    if (!file || (descriptor->generation != 0 && sim_descriptor_of(descriptor)->is_watched))
        return;
    if (!mr_file_watch(file, watcher_of(loop), number)) {
        fputs("millrace: out of memory for the watches of a simulated machine\n", stderr);
        abort();
    }
    sim_descriptor_of(descriptor)->is_watched = descriptor->generation != 0;
}

static void submit(mr_loop *loop, mr_slot *slot)
{
    mr_machine *machine = machine_of(loop);
    int number = mr_slot_number(slot);
    mr_machine_lock(machine);
    MR_TRACE(machine, "%s %d length %llu", mr_kind_name(slot->request.kind), number,
             (unsigned long long)slot->request.length);
    sim_slot_of(slot)->fault = (uint8_t)mr_machine_next_fault(machine, applicable_faults_of(machine, slot));
    bool is_tried = slot->request.kind == MR_SEND_THEN_RECEIVE || mr_is_wait(slot->request.kind) ||
                    mr_is_performed_first(slot, false);
    if (!is_tried || !mr_perform(loop, slot))
        park(loop, number);
    mr_machine_unlock(machine);
}

/* Retries the operations of one direction, oldest first, until one would block or is delayed. */
static void serve(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    bool is_blocked = false;
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        bool is_delayed = sim_slot_of(slot)->phase == DELAYED;
        if (slot->state != MR_SLOT_PENDING || is_delayed || (is_blocked && !mr_is_wait(slot->request.kind))) {
            is_blocked |= is_delayed;
            continue;
        }
        bool holds_up = fault_of(slot) == MR_FAULT_DELAY; /* read it first: mr_perform may free the slot */
        is_blocked |= !mr_perform(loop, slot) || holds_up;
    }
}

static void serve_both(mr_loop *loop, int number)
{
    mr_descriptor *descriptor = mr_loop_descriptor(loop, number);
    serve(loop, descriptor, MR_READING);
    serve(loop, descriptor, MR_WRITING);
    if (descriptor->first[MR_READING] || descriptor->first[MR_WRITING])
        park(loop, number);
}

static void cancel(mr_loop *loop, mr_slot *slot)
{
    mr_machine *machine = machine_of(loop);
    int number = mr_slot_number(slot);
    mr_machine_lock(machine);
    if (fault_of(slot) == MR_FAULT_LATE_CANCEL) {
        *sim_slot_of(slot) = (sim_slot){.phase = ENDING};
        plan_completion(loop, slot);
    } else if (sim_slot_of(slot)->phase == GOES_ON) {
        settle(loop, slot, -ECANCELED);
        serve_both(loop, number); /* later operations may have waited for this one */
    }
    mr_machine_unlock(machine);
}

static void detach(mr_loop *loop, mr_descriptor *descriptor)
{
    mr_machine *machine = machine_of(loop);
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, descriptor->number);
    if (file)
        mr_file_unwatch(file, watcher_of(loop), descriptor->number);
    sim_descriptor_of(descriptor)->is_watched = false;
    mr_machine_unlock(machine);
}

static int close_descriptor(mr_loop *loop, int number)
{
    return mr_machine_close(machine_of(loop), number);
}

/* ------------------------------------------------------------------------------------------------ poll and wait --- */

/* Only records that an operation is due: the loop's owner completes it at its next poll. */
void mr_sim_note_due(const mr_event *what)
{
    mr_watcher *watcher = watcher_of(what->loop);
    if (watcher->due_count == watcher->due_capacity) {
        watcher->due_capacity = watcher->due_capacity ? watcher->due_capacity * 2 : 16;
        watcher->due = realloc(watcher->due, watcher->due_capacity * sizeof *watcher->due);
        if (!watcher->due) {
            fputs("millrace: out of memory for the completions of a simulated machine\n", stderr);
            abort();
        }
    }
    watcher->due[watcher->due_count++] = what->token;
    pthread_cond_broadcast(&machine_of(what->loop)->changed);
}

/* Completes an operation whose delay is over. */
static void come_due(mr_loop *loop, mr_token token)
{
    mr_slot *slot = mr_loop_find(loop, token);
    if (!slot || slot->state != MR_SLOT_PENDING || sim_slot_of(slot)->phase == GOES_ON)
        return; /* it completed before its late cancellation came due */
    int number = mr_slot_number(slot);
    int64_t result = sim_slot_of(slot)->phase == DELAYED ? delayed_result(slot) : -ECANCELED;
    if (!settle(loop, slot, result))
        mr_perform(loop, slot);
    serve_both(loop, number);
}

static void shuffle(mr_machine *machine, mr_watcher *watcher)
{
    for (size_t i = 0; i + 1 < watcher->count; i++) {
        size_t j = i + mr_machine_draw(machine, watcher->count - i);
        mr_watch *held = watcher->events[i];
        watcher->events[i] = watcher->events[j];
        watcher->events[j] = held;
    }
}

static void act_on(mr_loop *loop, mr_watch *watch)
{
    watch->is_reported = false;
    if (watch->watcher)
        serve_both(loop, watch->number);
    else
        free(watch);
}

/* Prefetches a record into the processor's caches. The address may be invalid, or NULL. */
static void fetch(const void *record, size_t size)
{
    enum { CACHE_LINE_BYTES = 64 };
    for (size_t offset = 0; offset < size; offset += CACHE_LINE_BYTES)
        __builtin_prefetch((const void *)((uintptr_t)record + offset));
}

/* With a million connections, hardly any record is in a cache. So while one event is handled, the records for later
 * events are fetched: first the watch, then the file and the descriptor that it names, then the descriptor's
 * operation. */
static void fetch_ahead(mr_loop *loop, size_t i, size_t count)
{
    enum { WATCHES = 8, RECORDS = 5, OPERATIONS = 2 }; /* how many events ahead each is fetched */
    mr_watch *const *events = watcher_of(loop)->events;
    if (i + WATCHES < count)
        fetch(events[i + WATCHES], sizeof(mr_watch));
    if (i + RECORDS < count) {
        int number = events[i + RECORDS]->number;
        fetch(mr_machine_find(machine_of(loop), number), sizeof(mr_socket));
        fetch(mr_loop_descriptor(loop, number), sizeof(mr_descriptor));
    }
    if (i + OPERATIONS < count)
        fetch(mr_loop_descriptor(loop, events[i + OPERATIONS]->number)->first[MR_READING], sizeof(mr_slot));
}

static void poll_events(mr_loop *loop)
{
    mr_machine *machine = machine_of(loop);
    mr_watcher *watcher = watcher_of(loop);
    mr_machine_lock(machine);
    watcher->woken = false;
    mr_machine_catch_up(machine);
    if (machine->plan.reorders)
        shuffle(machine, watcher);
    for (size_t i = 0; i < watcher->due_count; i++)
        come_due(loop, watcher->due[i]);
    watcher->due_count = 0;
    /* Handling these may add events. The next poll handles those. */
    size_t count = watcher->count;
    for (size_t i = 0; i < count; i++) {
        fetch_ahead(loop, i, count);
        act_on(loop, watcher->events[i]);
    }
    watcher->count -= count;
    for (size_t i = 0; i < watcher->count; i++)
        watcher->events[i] = watcher->events[count + i];
    mr_machine_unlock(machine);
}

static bool flush(mr_loop *loop)
{
    (void)loop;
    return true; /* nothing is ever queued */
}

static bool has_work_locked(const mr_loop *loop)
{
    const mr_watcher *watcher = watcher_of(loop);
    return watcher->count || watcher->due_count;
}

static bool has_work(mr_loop *loop)
{
    mr_machine_lock(machine_of(loop));
    bool result = has_work_locked(loop);
    mr_machine_unlock(machine_of(loop));
    return result;
}

/* The clock jumps at most once in a call, because another loop or thread may have waited for just this moment. */
static void wait_for_events(const mr_loop *loop, uint64_t until_ns)
{
    mr_machine *machine = machine_of(loop);
    const mr_watcher *watcher = watcher_of(loop);
    mr_machine_lock(machine);
    while (!has_work_locked(loop) && !watcher->woken && mr_machine_now_ns(machine) < until_ns) {
        bool has_moved = mr_machine_advance_locked(machine, until_ns);
        if (!has_moved)
            pthread_cond_wait(&machine->changed, &machine->lock); /* nothing is due: another thread must act */
        else if (!machine->keeps_real_time)
            break;
    }
    mr_machine_unlock(machine);
}

int mr_machine_skip(mr_loop *loop)
{
    return !mr_loop_prepare_wait(loop) || mr_machine_advance(machine_of(loop), loop->wait_until_ns);
}

static void wake(mr_loop *loop)
{
    mr_machine *machine = machine_of(loop);
    mr_machine_lock(machine);
    watcher_of(loop)->woken = true;
    pthread_cond_broadcast(&machine->changed);
    mr_machine_unlock(machine);
}

/* --------------------------------------------------------------------------------------------------- lifetime --- */

static int probe(char *reason, size_t reason_size)
{
    if (reason)
        snprintf(reason, reason_size, "a simulated machine is never chosen: the program that runs on it creates it");
    return -ENOTSUP;
}

static int create(mr_loop *loop)
{
    loop->backend_state = calloc(1, sizeof(mr_watcher));
    return loop->backend_state ? 0 : -ENOMEM;
}

static void destroy(mr_loop *loop)
{
    mr_machine *machine = machine_of(loop);
    mr_watcher *watcher = watcher_of(loop);
    mr_machine_lock(machine);
    mr_machine_unwatch_all(machine, watcher);
    mr_machine_forget_loop(machine, loop);
    for (size_t i = 0; i < watcher->count; i++)
        free(watcher->events[i]);
    mr_machine_unlock(machine);
    free(watcher->events);
    free(watcher->due);
    free(loop->backend_state);
}

const mr_backend_operations mr_sim_backend = {
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .abandon = destroy,
    .submit = submit,
    .sends_first = true,
    .cancel = cancel,
    .attempt = attempt,
    .delay = delay,
    .detach = detach,
    .close = close_descriptor,
    .poll = poll_events,
    .flush = flush,
    .has_work = has_work,
    .wait = wait_for_events,
    .wake = wake,
};

static uint64_t machine_now_ns(const mr_group *group)
{
    return mr_machine_now_ns(group->machine);
}

int mr_machine_group(mr_machine *machine, mr_group **group)
{
    int error = mr_group_create_on(MR_BACKEND_SIM, &mr_sim_backend, machine_now_ns, group);
    if (error)
        return error;
    (*group)->machine = machine;
    mr_group_check_polls(*group);
    return 0;
}
