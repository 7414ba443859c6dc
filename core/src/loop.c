/*
 * loop.c: what happens to an operation from submission to completion, on every backend alike.
 *
 * Read mr_loop_submit, mr_loop_settle and mr_loop_poll first; the rest serves them. Knows no operating system.
 */
#include "alarm.h"
#include "backend.h"
#include "closing.h"
#include "token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BACKOFF_FIRST_MS = 10, BACKOFF_LAST_MS = 200 };

/* What the wheel may do besides firing: a tenth of a millisecond, with no timer in the cache. */
enum { TIMER_MOVES_PER_POLL = 256 };

#define NS_PER_MS UINT64_C(1000000)

/* What waits for the next poll may wait so long. */
#define QUICK_TURN_NS (2 * NS_PER_MS)

/* ---------------------------------------------------------------------------------------------- tokens, slots --- */

uint32_t mr_token_loop(mr_token token)
{
    return (uint32_t)(token >> (MR_SLOT_BITS + MR_GENERATION_BITS));
}

uint32_t mr_token_slot(mr_token token)
{
    return (uint32_t)token & ((1u << MR_SLOT_BITS) - 1);
}

static mr_slot *take_slot(mr_loop *loop)
{
    mr_slot *slot = loop->free_slots;
    if (slot) {
        loop->free_slots = slot->queued;
    } else {
        uint32_t number;
        slot = mr_pool_extend(&loop->slots, sizeof *slot, MR_RECORDS_MAX, &number);
        if (!slot)
            return NULL;
        slot->token = mr_token_make(loop->group->epoch, loop->index, number, false);
    }
    slot->state = MR_SLOT_RESERVED;
    return slot;
}

static void free_slot(mr_loop *loop, mr_slot *slot)
{
    slot->token = mr_token_next(slot->token);
    slot->state = MR_SLOT_FREE;
    slot->queued = loop->free_slots;
    loop->free_slots = slot;
}

mr_slot *mr_loop_find(mr_loop *loop, mr_token token)
{
    mr_slot *slot = mr_pool_at(&loop->slots, mr_token_number(token), sizeof *slot);
    return slot && slot->token == token && slot->state != MR_SLOT_FREE ? slot : NULL;
}

/* ------------------------------------------------------------------------------------------------ descriptors --- */

static bool grow_descriptor_chunks(mr_loop *loop, uint32_t wanted)
{
    mr_descriptor **chunks = realloc(loop->descriptor_chunks, wanted * sizeof *chunks);
    if (!chunks)
        return false;
    memset(chunks + loop->descriptor_chunk_count, 0, (wanted - loop->descriptor_chunk_count) * sizeof *chunks);
    loop->descriptor_chunks = chunks;
    loop->descriptor_chunk_count = wanted;
    return true;
}

mr_descriptor *mr_loop_descriptor(mr_loop *loop, int number)
{
    uint32_t chunk = (uint32_t)number / MR_DESCRIPTOR_CHUNK;
    if (chunk >= loop->descriptor_chunk_count && !grow_descriptor_chunks(loop, chunk + 1))
        return NULL;
    if (!loop->descriptor_chunks[chunk]) {
        mr_descriptor *fresh = calloc(MR_DESCRIPTOR_CHUNK, sizeof *fresh);
        if (!fresh)
            return NULL;
        for (int i = 0; i < MR_DESCRIPTOR_CHUNK; i++) {
            fresh[i].number = (int)chunk * MR_DESCRIPTOR_CHUNK + i;
            fresh[i].timers[MR_READING].place.owner = MR_TIMER_OF_READING;
            fresh[i].timers[MR_WRITING].place.owner = MR_TIMER_OF_WRITING;
        }
        loop->descriptor_chunks[chunk] = fresh;
    }
    return &loop->descriptor_chunks[chunk][(uint32_t)number % MR_DESCRIPTOR_CHUNK];
}

void mr_descriptor_forget(mr_descriptor *descriptor)
{
    descriptor->detaching = false;
    descriptor->is_tcp = false;
    descriptor->may_hide_data = false;
    descriptor->exhausted[MR_READING] = descriptor->exhausted[MR_WRITING] = false;
    descriptor->is_shut = false;
    descriptor->drained = false;
    descriptor->has_positions = false;
    descriptor->may_have_deadline[MR_READING] = descriptor->may_have_deadline[MR_WRITING] = false;
}

/* The deadlines themselves are where every thread may write them, in no cache of ours. Whoever sets one where none was
 * tells the loops that have joined, so they need not look before. */
static void note_deadlines(mr_descriptor *descriptor)
{
    for (int direction = 0; direction < MR_DIRECTIONS; direction++)
        descriptor->may_have_deadline[direction] =
            atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed) != MR_NO_DEADLINE;
}

/* Makes sure that this loop may work on a handle. 0 and the record, -EBADF or -ENOMEM. */
static int use_handle(mr_loop *loop, mr_handle handle, mr_descriptor **record)
{
    int number = mr_handle_descriptor(handle);
    uint32_t generation = mr_handle_generation(handle);
    if (number < 0 || number >= MR_DESCRIPTORS_MAX) /* a table that reaches so far would be 64 MiB */
        return -EBADF;
    mr_descriptor *descriptor = mr_loop_descriptor(loop, number);
    if (!descriptor)
        return -ENOMEM;
    *record = descriptor;
    if (generation == 0 || descriptor->generation == generation)
        return descriptor->detaching ? -EBADF : 0; /* a close waits for all that has begun before it */
    int error = mr_handle_join(&loop->group->handles, handle, loop->index);
    if (error)
        return error;
    descriptor->generation = generation;
    descriptor->deadlines_ns = mr_handle_deadlines_ns(&loop->group->handles, handle);
    mr_descriptor_forget(descriptor);
    note_deadlines(descriptor);
    return 0;
}

/* A wait that has only the number of a descriptor of ours is one on that: a close ends it, on every loop. */
static int find_own(mr_loop *loop, mr_request *request)
{
    if (mr_handle_generation(request->handle) != 0)
        return 0;
    return mr_handle_of_number(&loop->group->handles, mr_handle_descriptor(request->handle), &request->handle);
}

/* The record of a handle that this loop has joined, or NULL. */
static mr_descriptor *joined_descriptor(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = mr_loop_descriptor(loop, mr_handle_descriptor(handle));
    return descriptor && descriptor->generation == mr_handle_generation(handle) ? descriptor : NULL;
}

static void link_operation(mr_descriptor *descriptor, mr_slot *slot)
{
    int direction = mr_direction_of(slot->request.kind);
    slot->descriptor = descriptor;
    slot->next = NULL;
    slot->previous = descriptor->last[direction];
    if (slot->previous)
        slot->previous->next = slot;
    else
        descriptor->first[direction] = slot;
    descriptor->last[direction] = slot;
}

static void unlink_operation(mr_slot *slot)
{
    mr_descriptor *descriptor = slot->descriptor;
    int direction = mr_direction_of(slot->request.kind);
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        descriptor->first[direction] = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    else
        descriptor->last[direction] = slot->previous;
    slot->descriptor = NULL;
}

/* ------------------------------------------------------------------------------------------------ completions --- */

/* MR_SEND_THEN_RECEIVE: if its first half has failed, its buffer goes back; if it was not possible, it is the caller's again. */
static void end_send_then_receive(mr_loop *loop, mr_slot *slot, int64_t result)
{
    if (result != -EINVAL && mr_sent_only(result) < 0)
        mr_lender_put(&loop->lender, slot->request.buffer);
}

void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result) /* NOLINT(misc-no-recursion): see closing.c */
{
    mr_descriptor *descriptor = slot->descriptor;
    slot->result = result;
    slot->state = MR_SLOT_COMPLETED;
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        end_send_then_receive(loop, slot, result);
    if (slot->lent)
        slot->lent->length = slot->transferred;
    if (slot->backend_memory) {
        free(slot->backend_memory);
        slot->backend_memory = NULL;
    }
    mr_timer_disarm(&loop->wheel, &slot->timer);
    if (slot != loop->submitting) {
        slot->queued = NULL;
        if (loop->completed_last)
            loop->completed_last->queued = slot;
        else
            loop->completed_first = slot;
        loop->completed_last = slot;
    }
    if (!descriptor)
        return;
    unlink_operation(slot);
    if (descriptor->detaching)
        mr_closing_note_end(loop, descriptor);
}

/* A length of time becomes a point in time when the waiting begins. */
static void fix_deadline(const mr_loop *loop, mr_slot *slot)
{
    if (!(slot->request.flags & MR_WITHIN))
        return;
    slot->request.flags &= ~MR_WITHIN;
    if (slot->request.deadline_ns == MR_NO_DEADLINE)
        return;
    uint64_t now_ns = mr_loop_now_ns(loop), length_ns = slot->request.deadline_ns;
    slot->request.deadline_ns = length_ns < UINT64_MAX - now_ns ? now_ns + length_ns : UINT64_MAX;
}

static void arm_deadline(mr_loop *loop, mr_slot *slot)
{
    fix_deadline(loop, slot);
    if (slot->request.deadline_ns != MR_NO_DEADLINE)
        mr_timer_arm(&loop->wheel, &slot->timer, slot->request.deadline_ns);
}

/*
 * Sees to it that the operations of a direction end when the handle's deadline passes. One timer serves them all. It is
 * left alone when they end and when the deadline is moved to a later moment; when it fires too early, it is set again.
 */
static void watch_deadline(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    if (!descriptor->may_have_deadline[direction] || !descriptor->first[direction])
        return;
    uint64_t deadline_ns = atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed);
    if (deadline_ns != MR_NO_DEADLINE)
        mr_timer_arm(&loop->wheel, &descriptor->timers[direction], deadline_ns);
}

/* Puts an operation aside whose cause of failure passes by itself. Its timer serves both the pause and the deadline:
 * whichever is first. */
static void back_off(mr_loop *loop, mr_slot *slot)
{
    uint64_t until_ns;
    fix_deadline(loop, slot);
    slot->backoff_ms = (uint16_t)(slot->backoff_ms ? slot->backoff_ms * 2 : BACKOFF_FIRST_MS);
    if (slot->backoff_ms > BACKOFF_LAST_MS)
        slot->backoff_ms = BACKOFF_LAST_MS;
    until_ns = mr_loop_now_ns(loop) + slot->backoff_ms * NS_PER_MS;
    if (slot->request.deadline_ns != MR_NO_DEADLINE && slot->request.deadline_ns < until_ns)
        until_ns = slot->request.deadline_ns;
    slot->state = MR_SLOT_BACKOFF;
    mr_timer_arm(&loop->wheel, &slot->timer, until_ns);
    mr_count(&loop->counters.resubmissions, 1);
}

static bool passes_by_itself(const mr_slot *slot, int64_t result)
{
    if (slot->request.kind == MR_CONNECT)
        return result == -MR_QUEUE_FULL;
    return slot->request.kind == MR_ACCEPT &&
           (result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM);
}

/* Errors that concern one queued connection, not the listener (accept(2), "Error handling"). */
static bool is_lost_connection(const mr_slot *slot, int64_t result)
{
    if (slot->request.kind != MR_ACCEPT)
        return false;
    switch (-result) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
#ifdef EHOSTDOWN
    case EHOSTDOWN:
#endif
#ifdef ENONET
    case ENONET:
#endif
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

/* ECANCELED that nobody asked for: the kernel ends what a thread submitted when that thread exits. */
static bool was_interrupted(int64_t result)
{
    return result == -ECANCELED || result == -EINTR;
}

/* A lent buffer is taken for the length of the attempt, and kept only if bytes have come. */
static int64_t attempt_with_lent(mr_loop *loop, mr_slot *slot)
{
    slot->lent = mr_lender_take(&loop->lender);
    if (!slot->lent)
        return -ENOMEM;
    slot->request.buffer = slot->lent->bytes;
    int64_t result = loop->backend->attempt(loop, slot);
    if (result <= 0) {
        mr_lender_put(&loop->lender, slot->lent);
        slot->lent = NULL;
        slot->request.buffer = NULL;
    }
    return result;
}

/* The first half of an MR_SEND_THEN_RECEIVE, which waits for nothing. */
static int64_t attempt_send_then_receive(mr_loop *loop, mr_slot *slot)
{
    void *buffer = slot->request.buffer;
    slot->request.buffer = mr_send_then_receive_bytes(&slot->request);
    slot->request.kind = MR_SEND;
    int64_t result = loop->backend->attempt(loop, slot);
    slot->request.kind = MR_SEND_THEN_RECEIVE;
    slot->request.buffer = buffer;
    return result == -EAGAIN ? mr_not_sent(0) : result;
}

int64_t mr_loop_attempt(mr_loop *loop, mr_slot *slot)
{
    mr_count(&loop->counters.system_calls, 1);
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return attempt_send_then_receive(loop, slot);
    return slot->request.flags & MR_BORROW ? attempt_with_lent(loop, slot) : loop->backend->attempt(loop, slot);
}

/* The second half of an MR_SEND_THEN_RECEIVE. */
static void become_receive(mr_loop *loop, mr_slot *slot)
{
    mr_lender_put(&loop->lender, slot->request.buffer);
    slot->request.kind = MR_RECV;
    slot->request.flags |= MR_BORROW;
    slot->request.buffer = NULL;
    slot->request.length = MR_BUFFER_BYTES;
    slot->request.offset = 0;
}

/* How the first half of an MR_SEND_THEN_RECEIVE went. True if that was the end of it. */
static bool settle_send_then_receive(mr_loop *loop, mr_slot *slot, int64_t result)
{
    bool is_sent = result >= 0 && (uint64_t)result == slot->request.length;
    bool is_recalled = slot->end_reason == -EINTR; /* from the second half, not from the first */
    if (is_sent)
        become_receive(loop, slot);
    if (slot->end_reason && (is_sent || !is_recalled))
        result = slot->end_reason;
    else if (is_sent || was_interrupted(result))
        return false;
    else if (result >= 0)
        result = mr_not_sent(result);
    mr_loop_finish(loop, slot, result);
    return true;
}

/* What was asked to end ends with this. A wait for what was shut down has not failed: it has what it has waited for. */
static int64_t end_of(const mr_slot *slot)
{
    return mr_is_wait(slot->request.kind) && slot->end_reason == -EPIPE ? 0 : slot->end_reason;
}

bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result)
{
    if (slot->request.kind == MR_SEND_THEN_RECEIVE)
        return settle_send_then_receive(loop, slot, result);
    if (result > 0 && mr_has_trait(slot->request.kind, MR_MOVES_BYTES)) {
        slot->transferred += (uint64_t)result;
        bool wants_more = (slot->request.flags & MR_ALL) && !mr_advance(&slot->request, (uint64_t)result);
        if (wants_more && !slot->end_reason)
            return false;
        result = wants_more ? slot->end_reason : (int64_t)slot->transferred;
    } else if (was_interrupted(result)) {
        if (!slot->end_reason) {
            mr_count(&loop->counters.resubmissions, 1);
            return false;
        }
        result = end_of(slot);
    } else if (is_lost_connection(slot, result) || passes_by_itself(slot, result)) {
        if (slot->end_reason) {
            result = slot->end_reason;
        } else if (is_lost_connection(slot, result)) {
            return false;
        } else {
            back_off(loop, slot);
            return true;
        }
    }
    mr_loop_finish(loop, slot, result);
    return true;
}

/* ------------------------------------------------------------------------------------------------------ ending --- */

/* An accept looks once more: nobody else may have been told of the connection that it could not take, and it may now. */
static void end_back_off(mr_loop *loop, mr_slot *slot, int reason)
{
    slot->state = MR_SLOT_PENDING;
    slot->end_reason = reason;
    int64_t result = slot->request.kind == MR_ACCEPT ? mr_loop_attempt(loop, slot) : -EAGAIN;
    mr_loop_settle(loop, slot, result == -EAGAIN ? -ECANCELED : result);
}

void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason)
{
    if (slot->state == MR_SLOT_BACKOFF) {
        end_back_off(loop, slot, reason);
    } else if (slot->state == MR_SLOT_PENDING && slot->request.kind != MR_CLOSE && !slot->end_reason) {
        slot->end_reason = reason;
        loop->backend->cancel(loop, slot);
    }
}

void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason)
{
    for (mr_slot *slot = descriptor->first[direction], *next; slot; slot = next) {
        next = slot->next;
        mr_loop_end_operation(loop, slot, reason);
    }
}

bool mr_loop_is_tried_last(const mr_slot *slot)
{
    mr_kind kind = slot->request.kind;
    if (slot->end_reason != -ETIMEDOUT || kind == MR_SEND_THEN_RECEIVE || mr_is_on_file(kind))
        return false;
    return mr_is_wait(kind) || mr_has_turn(slot);
}

/* Of a handle of ours: a wait that has only the descriptor is answered by the system. */
static bool is_ended_by_shutdown(const mr_slot *slot)
{
    return mr_when_shut(slot->request.kind, MR_WRITING) == -EPIPE && mr_handle_generation(slot->request.handle) != 0;
}

/* To those who poll for room on a Unix socket that is shut down for sending Linux does not say so. */
static void end_sends(mr_loop *loop, mr_descriptor *descriptor)
{
    for (mr_slot *slot = descriptor->first[MR_WRITING], *next; slot; slot = next) {
        next = slot->next;
        if (is_ended_by_shutdown(slot))
            mr_loop_end_operation(loop, slot, -EPIPE);
    }
}

/* Where the backend does not see to it, all else that waits ends by itself. */
static void end_shut(mr_loop *loop, mr_handle handle, int how)
{
    mr_descriptor *descriptor = joined_descriptor(loop, handle);
    bool is_for_reading = how != SHUT_WR, is_for_writing = how != SHUT_RD;
    if (!descriptor)
        return;
    if (!loop->backend->end_shut) {
        if (is_for_writing)
            end_sends(loop, descriptor);
        return;
    }
    if (is_for_reading)
        loop->backend->end_shut(loop, descriptor, MR_READING);
    if (is_for_writing)
        loop->backend->end_shut(loop, descriptor, MR_WRITING);
}

/* ------------------------------------------------------------------------------------------------- submission --- */

/* Performs an operation on the spot: MR_NOW, and what never waits. */
static void perform_now(mr_loop *loop, mr_slot *slot)
{
    int64_t result;
    do {
        result = mr_loop_attempt(loop, slot);
        if (result == -EAGAIN || passes_by_itself(slot, result)) {
            mr_loop_finish(loop, slot, result == -MR_QUEUE_FULL ? -EAGAIN : result);
            return;
        }
    } while (!mr_loop_settle(loop, slot, result));
}

static void perform_shutdown(mr_loop *loop, mr_slot *slot)
{
    mr_letter letter = {.kind = MR_LETTER_SHUT, .handle = slot->request.handle, .request = slot->request};
    mr_loop *others[MR_LOOPS_MAX];
    uint64_t joined;
    loop->backend->flush(loop); /* what is to be sent goes first */
    perform_now(loop, slot);
    if (slot->result < 0 || mr_handle_loops(&loop->group->handles, letter.handle, &joined) < 0)
        return;
    unsigned count = mr_group_other_loops(loop->group, joined, loop, others);
    for (unsigned i = 0; i < count; i++)
        mr_loop_post(others[i], &letter);
    end_shut(loop, letter.handle, (int)letter.request.length);
}

bool mr_loop_send_first(mr_loop *loop, mr_slot *slot)
{
    while (slot->request.kind == MR_SEND_THEN_RECEIVE)
        if (mr_loop_settle(loop, slot, mr_loop_attempt(loop, slot)))
            return false;
    return true;
}

static void submit_on_descriptor(mr_loop *loop, mr_slot *slot)
{
    mr_descriptor *descriptor;
    int error = find_own(loop, &slot->request);
    if (!error)
        error = use_handle(loop, slot->request.handle, &descriptor);
    if (error) {
        mr_loop_finish(loop, slot, error);
    } else if (slot->request.kind == MR_SEND_THEN_RECEIVE && !loop->backend->sends_first &&
               !mr_loop_send_first(loop, slot)) {
        return;
    } else if (slot->request.kind == MR_SHUTDOWN) {
        perform_shutdown(loop, slot);
    } else if (slot->request.flags & MR_NOW) {
        perform_now(loop, slot);
    } else {
        link_operation(descriptor, slot);
        loop->backend->submit(loop, slot);
        if (slot->state == MR_SLOT_PENDING)
            arm_deadline(loop, slot);
        if (slot->descriptor) /* it waits */
            watch_deadline(loop, descriptor, mr_direction_of(slot->request.kind));
        if (loop->turns_are_slow)
            loop->backend->flush(loop);
    }
}

/* Sets an operation going in a slot. It may have ended when this returns. */
static void begin(mr_loop *loop, mr_slot *slot, const mr_request *request)
{
    slot->request = *request;
    slot->descriptor = NULL;
    slot->transferred = 0;
    slot->end_reason = 0;
    slot->backoff_ms = 0;
    slot->attempts = 0;
    slot->awaits_room = false;
    slot->backlog = 0;
    slot->lent = NULL;
    slot->state = MR_SLOT_PENDING;
    mr_count(&loop->counters.operations, 1);
    if (request->flags & MR_BORROW && request->length > MR_BUFFER_BYTES)
        slot->request.length = MR_BUFFER_BYTES;
    int error = mr_check_request(request);
    if (error)
        mr_loop_finish(loop, slot, error);
    else if (request->kind == MR_CLOSE)
        mr_closing_begin(loop, slot);
    else
        submit_on_descriptor(loop, slot);
}

/*
 * While the owner sleeps nobody polls: what was queued must be handed over here, and a sleep that has become too long,
 * or that leaves a completion lying, must end.
 */
static void attend_sleeper(mr_loop *loop)
{
    if (!atomic_load_explicit(&loop->sleeping, memory_order_relaxed))
        return;
    bool is_all_handed_over = loop->backend->flush(loop);
    if (!is_all_handed_over || loop->completed_first || mr_timer_watched_ns(&loop->wheel) < loop->wait_until_ns)
        mr_loop_wake(loop);
}

/* From here on a lent buffer is the caller's. */
static void fill_completion(mr_slot *slot, mr_completion *completion)
{
    completion->token = slot->token;
    completion->user_data = slot->request.user_data;
    completion->result = slot->result;
    completion->transferred = slot->transferred;
    completion->buffer = slot->lent;
    slot->lent = NULL;
}

static mr_status submit_in_slot(mr_loop *loop, mr_slot *slot, const mr_request *request, mr_completion *completion)
{
    loop->submitting = slot;
    begin(loop, slot, request);
    loop->submitting = NULL;
    completion->token = slot->token;
    if (slot->state == MR_SLOT_COMPLETED) {
        fill_completion(slot, completion);
        mr_count(&loop->counters.completions, 1);
        free_slot(loop, slot);
        return MR_DONE;
    }
    mr_count(&loop->counters.parks, 1);
    return MR_PENDING;
}

static mr_status submit_alarm(mr_loop *loop, mr_alarm *alarm, const mr_request *request, mr_completion *completion)
{
    int error = mr_alarm_start(loop, alarm, request);
    *completion = (mr_completion){.token = alarm->token, .user_data = request->user_data, .result = error};
    if (error) {
        mr_alarm_release(loop, alarm);
        return MR_DONE;
    }
    return MR_PENDING;
}

mr_status mr_loop_submit(mr_loop *loop, const mr_request *request, mr_completion *completion)
{
    bool is_alarm = request->kind == MR_TIMEOUT;
    mr_alarm *alarm = is_alarm ? mr_alarm_take(loop) : NULL;
    mr_slot *slot = is_alarm ? NULL : take_slot(loop);
    if (!alarm && !slot) {
        if (request->kind == MR_SEND_THEN_RECEIVE && mr_check_request(request) != -EINVAL)
            mr_lender_put(&loop->lender, request->buffer); /* see end_send_then_receive */
        *completion = (mr_completion){.user_data = request->user_data, .result = -ENOMEM};
        return MR_DONE;
    }
    mr_status status =
        is_alarm ? submit_alarm(loop, alarm, request, completion) : submit_in_slot(loop, slot, request, completion);
    attend_sleeper(loop);
    return status;
}

int mr_loop_reserve(mr_loop *loop, mr_kind kind, mr_token *token)
{
    mr_alarm *alarm = kind == MR_TIMEOUT ? mr_alarm_take(loop) : NULL;
    mr_slot *slot = kind == MR_TIMEOUT ? NULL : take_slot(loop);
    if (!alarm && !slot)
        return -ENOMEM;
    *token = alarm ? alarm->token : slot->token;
    return 0;
}

static void start_alarm(mr_loop *loop, mr_token token, const mr_request *request)
{
    mr_alarm *alarm = mr_alarm_find(loop, token);
    if (!alarm || alarm->state != MR_SLOT_RESERVED)
        return;
    int error = mr_alarm_start(loop, alarm, request);
    if (error) {
        mr_alarm_start(loop, alarm, &(mr_request){.kind = MR_TIMEOUT, .user_data = request->user_data});
        mr_alarm_end(loop, alarm, error);
    }
}

void mr_loop_start(mr_loop *loop, mr_token token, const mr_request *request)
{
    if (mr_token_is_alarm(token)) {
        start_alarm(loop, token, request);
    } else {
        mr_slot *slot = mr_loop_find(loop, token);
        if (!slot || slot->state != MR_SLOT_RESERVED)
            return;
        begin(loop, slot, request);
    }
    attend_sleeper(loop);
}

/* What a token names: one of the two, or neither if it is stale. */
typedef struct record {
    mr_alarm *alarm;
    mr_slot *slot;
} record;

static record find_record(mr_loop *loop, mr_token token)
{
    if (mr_token_is_alarm(token))
        return (record){.alarm = mr_alarm_find(loop, token)};
    return (record){.slot = mr_loop_find(loop, token)};
}

/* What another thread has started may still lie in the mailbox. Whoever ends or moves it here must not come before. */
static void catch_up(mr_loop *loop)
{
    if (mr_mailbox_is_empty(&loop->mailbox))
        return;
    mr_loop_open_letters(loop);
    attend_sleeper(loop);
}

static void cancel(mr_loop *loop, mr_token token)
{
    record found = find_record(loop, token);
    if (found.alarm)
        mr_alarm_end(loop, found.alarm, -ECANCELED);
    else if (found.slot)
        mr_loop_end_operation(loop, found.slot, -ECANCELED);
}

void mr_loop_cancel(mr_loop *loop, mr_token token)
{
    catch_up(loop);
    cancel(loop, token);
    attend_sleeper(loop);
}

/* The end of the pause looks at the deadline, unless that is earlier. */
static void hasten_back_off(mr_loop *loop, mr_slot *slot)
{
    uint64_t deadline_ns = slot->request.deadline_ns;
    if (deadline_ns != MR_NO_DEADLINE && deadline_ns < mr_timer_due_ns(&slot->timer))
        mr_timer_arm(&loop->wheel, &slot->timer, deadline_ns);
}

static void update_slot(mr_loop *loop, mr_slot *slot, uint64_t deadline_ns)
{
    if ((slot->state != MR_SLOT_PENDING && slot->state != MR_SLOT_BACKOFF) || slot->request.kind == MR_CLOSE)
        return;
    slot->request.flags &= ~MR_WITHIN;
    slot->request.deadline_ns = deadline_ns;
    if (slot->state == MR_SLOT_BACKOFF) {
        hasten_back_off(loop, slot);
        return;
    }
    if (deadline_ns == MR_NO_DEADLINE)
        mr_timer_disarm(&loop->wheel, &slot->timer);
    else
        arm_deadline(loop, slot);
}

static void update(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    record found = find_record(loop, token);
    if (found.alarm)
        mr_alarm_update(loop, found.alarm, deadline_ns);
    else if (found.slot)
        update_slot(loop, found.slot, deadline_ns);
}

void mr_loop_update(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    catch_up(loop);
    update(loop, token, deadline_ns);
    attend_sleeper(loop);
}

int mr_loop_discard(mr_loop *loop, mr_token token)
{
    catch_up(loop);
    record found = find_record(loop, token);
    return found.alarm && mr_alarm_discard(loop, found.alarm);
}

void mr_loop_release(mr_loop *loop, mr_token token)
{
    record found = find_record(loop, token);
    if (found.alarm)
        mr_alarm_release(loop, found.alarm);
    else if (found.slot && (found.slot->state == MR_SLOT_DELIVERED || found.slot->state == MR_SLOT_RESERVED))
        free_slot(loop, found.slot);
}

mr_buffer *mr_loop_borrow(mr_loop *loop)
{
    return mr_lender_take(&loop->lender);
}

void mr_loop_give_back(mr_loop *loop, mr_buffer *buffer)
{
    mr_lender_put(&loop->lender, buffer);
}

/* ------------------------------------------------------------------------------------------- from other threads --- */

void mr_loop_post(mr_loop *loop, const mr_letter *letter)
{
    mr_mailbox_post(&loop->mailbox, letter);
    mr_loop_wake(loop);
}

unsigned mr_group_other_loops(mr_group *group, uint64_t joined, const mr_loop *except, mr_loop *others[MR_LOOPS_MAX])
{
    unsigned count = 0;
    unsigned loop_count = atomic_load(&group->loop_count);
    for (unsigned i = 0; joined && i < loop_count; i++) {
        mr_loop *other = atomic_load(&group->loops[i]);
        if (other && other != except && (joined >> (i % 64) & 1))
            others[count++] = other;
    }
    return count;
}

void mr_loop_start_remote(mr_loop *loop, mr_token token, const mr_request *request)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_START, .token = token, .request = *request});
}

void mr_loop_cancel_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_CANCEL, .token = token});
}

void mr_loop_update_remote(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_UPDATE, .token = token, .deadline_ns = deadline_ns});
}

void mr_loop_release_remote(mr_loop *loop, mr_token token)
{
    mr_loop_post(loop, &(mr_letter){.kind = MR_LETTER_RELEASE, .token = token});
}

static void recall_operation(mr_loop *loop, mr_slot *slot)
{
    if (mr_has_trait(slot->request.kind, MR_IS_RECALLED))
        mr_loop_end_operation(loop, slot, -EINTR);
    else if (slot->request.kind == MR_SEND_THEN_RECEIVE && !slot->end_reason)
        slot->end_reason = -EINTR; /* it is sending, which takes no time; settle_send_then_receive sees to the rest */
}

static void recall(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = joined_descriptor(loop, handle);
    if (!descriptor)
        return;
    for (mr_slot *slot = descriptor->first[MR_READING], *next; slot; slot = next) {
        next = slot->next;
        recall_operation(loop, slot);
    }
}

/* A deadline of a handle has become earlier. */
static void watch_earlier_deadline(mr_loop *loop, mr_handle handle)
{
    mr_descriptor *descriptor = joined_descriptor(loop, handle);
    if (!descriptor)
        return;
    note_deadlines(descriptor);
    watch_deadline(loop, descriptor, MR_READING);
    watch_deadline(loop, descriptor, MR_WRITING);
}

static void open_letter(mr_loop *loop, const mr_letter *letter)
{
    switch (letter->kind) {
    case MR_LETTER_START:
        mr_loop_start(loop, letter->token, &letter->request);
        break;
    case MR_LETTER_CANCEL:
        cancel(loop, letter->token);
        break;
    case MR_LETTER_UPDATE:
        update(loop, letter->token, letter->deadline_ns);
        break;
    case MR_LETTER_RELEASE:
        mr_loop_release(loop, letter->token);
        break;
    case MR_LETTER_DEADLINE:
        watch_earlier_deadline(loop, letter->handle);
        break;
    case MR_LETTER_RECALL:
        recall(loop, letter->handle);
        break;
    case MR_LETTER_SHUT:
        end_shut(loop, letter->handle, (int)letter->request.length);
        break;
    case MR_LETTER_DETACH:
        mr_closing_detach(loop, letter->handle);
        break;
    case MR_LETTER_DETACHED:
        mr_closing_complete(loop, letter->token);
        break;
    }
}

/* The loops of a set, of which the caller owns one, or none. */
static void tell(mr_group *group, uint64_t joined, mr_loop *owned, const mr_letter *letter)
{
    mr_loop *others[MR_LOOPS_MAX];
    unsigned count = mr_group_other_loops(group, joined, owned, others);
    for (unsigned i = 0; i < count; i++)
        mr_loop_post(others[i], letter);
    if (owned) {
        open_letter(owned, letter);
        attend_sleeper(owned);
    }
}

int mr_group_set_deadline(mr_group *group, mr_loop *owned, mr_handle handle, mr_direction direction,
                          uint64_t deadline_ns)
{
    uint64_t joined;
    int error = mr_handle_set_deadline(&group->handles, handle, direction, deadline_ns, &joined);
    if (!error && joined)
        tell(group, joined, owned, &(mr_letter){.kind = MR_LETTER_DEADLINE, .handle = handle});
    return error;
}

int mr_group_recall(mr_group *group, mr_loop *owned, mr_handle handle)
{
    uint64_t joined;
    int error = mr_handle_loops(&group->handles, handle, &joined);
    if (!error)
        tell(group, joined, owned, &(mr_letter){.kind = MR_LETTER_RECALL, .handle = handle});
    return error;
}

void mr_loop_open_letters(mr_loop *loop)
{
    mr_letter *letter = mr_mailbox_take(&loop->mailbox);
    while (letter) {
        mr_letter *next = letter->next;
        open_letter(loop, letter);
        free(letter);
        letter = next;
    }
}

/*
 * Lost wake-ups are impossible because both sides first write, then read (all sequentially consistent): the waker
 * sets `woken`, then looks at `sleeping`; the sleeper sets `sleeping`, then looks at `woken`. One of them sees the
 * other. A waker that finds `woken` set has nothing to add: the one who set it rings if need be, and what was done before
 * is seen by the poll that clears it.
 */
void mr_loop_wake(mr_loop *loop)
{
    if (atomic_exchange(&loop->woken, true) || !atomic_load(&loop->sleeping))
        return;
    loop->backend->wake(loop);
    atomic_fetch_add_explicit(&loop->counters.wake_ups, 1, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------------------ poll and wait --- */

static void fire_slot(mr_loop *loop, mr_slot *slot, uint64_t now_ns)
{
    if (slot->state == MR_SLOT_PENDING) {
        mr_loop_end_operation(loop, slot, -ETIMEDOUT);
    } else if (slot->request.deadline_ns != MR_NO_DEADLINE && slot->request.deadline_ns <= now_ns) {
        end_back_off(loop, slot, -ETIMEDOUT);
    } else {
        slot->state = MR_SLOT_PENDING;
        arm_deadline(loop, slot);
        loop->backend->submit(loop, slot);
    }
}

static void fire_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, uint64_t now_ns)
{
    uint64_t deadline_ns = atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed);
    if (deadline_ns != MR_NO_DEADLINE && deadline_ns <= now_ns)
        mr_loop_end_direction(loop, descriptor, direction, -ETIMEDOUT);
    else
        watch_deadline(loop, descriptor, direction);
}

/* Returns 1 if that made a completion: alarms need no detour. */
static int fire(mr_loop *loop, mr_timer *timer, uint64_t now_ns, mr_completion *completion)
{
    switch ((mr_timer_owner)timer->place.owner) {
    case MR_TIMER_OF_SLOT:
        fire_slot(loop, (mr_slot *)timer, now_ns);
        break;
    case MR_TIMER_OF_ALARM:
        mr_alarm_deliver(loop, (mr_alarm *)timer, completion);
        return 1;
    case MR_TIMER_OF_READING:
        fire_direction(loop, (mr_descriptor *)((char *)timer - offsetof(mr_descriptor, timers[MR_READING])), MR_READING,
                       now_ns);
        break;
    case MR_TIMER_OF_WRITING:
        fire_direction(loop, (mr_descriptor *)((char *)timer - offsetof(mr_descriptor, timers[MR_WRITING])), MR_WRITING,
                       now_ns);
        break;
    }
    return 0;
}

/* Fires what is due, as much as there is room for. Returns the number of completions. */
static int fire_timers(mr_loop *loop, mr_completion *completions, int capacity)
{
    if (loop->wheel.armed == 0)
        return 0;
    uint64_t now_ns = mr_loop_now_ns(loop);
    unsigned moves = TIMER_MOVES_PER_POLL;
    int count = 0;
    for (int fired = 0; fired < capacity; fired++) {
        mr_timer *timer = mr_timer_expire(&loop->wheel, now_ns, &moves);
        if (!timer)
            break;
        count += fire(loop, timer, now_ns, &completions[count]);
    }
    return count;
}

static int take_completions(mr_loop *loop, mr_completion *completions, int capacity)
{
    int count = 0;
    while (count < capacity && loop->completed_first) {
        mr_slot *slot = loop->completed_first;
        loop->completed_first = slot->queued;
        slot->state = MR_SLOT_DELIVERED;
        fill_completion(slot, &completions[count++]);
    }
    if (!loop->completed_first)
        loop->completed_last = NULL;
    mr_count(&loop->counters.completions, (uint64_t)count);
    return count;
}

static uint64_t operations_of(const mr_loop *loop)
{
    return atomic_load_explicit(&loop->counters.operations, memory_order_relaxed);
}

/*
 * Between two polls the owner runs those whom the first one has woken, and others. If that takes long, the next turn will, too.
 * That it takes no time says something only if they have begun something: an owner may poll again at once to see whether
 * that was all.
 */
static void end_turn(mr_loop *loop)
{
    if (!loop->turn_began_ns)
        return;
    bool is_slow = mr_loop_now_ns(loop) - loop->turn_began_ns > QUICK_TURN_NS;
    if (is_slow || loop->operations_before_turn != operations_of(loop))
        loop->turns_are_slow = is_slow;
}

static void begin_turn(mr_loop *loop)
{
    loop->turn_began_ns = mr_loop_now_ns(loop);
    loop->operations_before_turn = operations_of(loop);
}

static int poll_all(mr_loop *loop, mr_completion *completions, int capacity)
{
    mr_loop_open_letters(loop);
    /* The backend goes first: what arrived in time counts, even if its deadline has passed meanwhile. */
    loop->backend->poll(loop);
    int count = loop->has_kept_timers_waiting ? fire_timers(loop, completions, capacity) : 0;
    count += take_completions(loop, completions + count, capacity - count);
    loop->has_kept_timers_waiting = count == capacity && !loop->has_kept_timers_waiting;
    count += fire_timers(loop, completions + count, capacity - count);
    return count + take_completions(loop, completions + count, capacity - count);
}

int mr_loop_poll(mr_loop *loop, mr_completion *completions, int capacity)
{
    atomic_store(&loop->sleeping, false);
    atomic_store(&loop->woken, false);
    end_turn(loop);
    int count = poll_all(loop, completions, capacity);
    begin_turn(loop);
    return count;
}

int mr_loop_prepare_wait(mr_loop *loop)
{
    uint64_t next_ns = mr_timer_next_ns(&loop->wheel);
    mr_timer_watch(&loop->wheel);
    loop->wait_until_ns = next_ns;
    atomic_store(&loop->sleeping, true);
    bool has_work = atomic_load(&loop->woken) || !mr_mailbox_is_empty(&loop->mailbox) || loop->completed_first ||
                    next_ns == 0 || loop->backend->has_work(loop);
    if (has_work) {
        atomic_store(&loop->sleeping, false);
        return 0;
    }
    loop->turn_began_ns = 0;
    mr_count(&loop->counters.waits, 1);
    mr_count(&loop->counters.system_calls, 1);
    return 1;
}

void mr_loop_wait(mr_loop *loop)
{
    loop->backend->wait(loop, loop->wait_until_ns);
}
