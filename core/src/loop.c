/*
 * loop.c: takes an operation from submission to completion, in the same way on every backend.
 *
 * Read mr_loop_submit and mr_loop_poll first, then mr_loop_settle in perform.h. Must not know: system calls.
 */
#include "check.h"
#include "message.h"
#include "perform.h"
#include "request.h"
#include "timeout.h"
#include "backend.h"
#include "closing.h"
#include "deadline.h"
#include "send_then_receive.h"
#include "shutdown.h"
#include "token.h"

#include <errno.h>
#include <string.h>

/* The number of timers that a poll may move to other slots of the wheel. That takes a tenth of a millisecond if none is
 * in the cache. */
enum { TIMER_MOVES_PER_POLL = 256 };

/* Sends may wait for the next poll at most this long. */
#define QUICK_ITERATION_NS (2 * MR_NS_PER_MS)

/* ------------------------------------------------------------------------------------------------- submission --- */

static void submit_on_descriptor(mr_loop *loop, mr_slot *slot)
{
    mr_descriptor *descriptor;
    int error = mr_descriptor_resolve(loop, &slot->request);
    if (!error)
        error = mr_descriptor_use(loop, slot->request.handle, &descriptor);
    if (error) {
        mr_loop_finish(loop, slot, error);
    } else if (slot->request.kind == MR_SEND_THEN_RECEIVE && !loop->backend->sends_first &&
               !mr_send_then_receive_begin(loop, slot)) {
        return;
    } else if (slot->request.kind == MR_SHUTDOWN) {
        mr_shutdown_perform(loop, slot);
    } else if (slot->request.flags & MR_NOW) {
        mr_perform_now(loop, slot);
    } else {
        mr_descriptor_link(descriptor, slot);
        loop->backend->submit(loop, slot);
        if (slot->state == MR_SLOT_PENDING)
            mr_deadline_arm(loop, slot);
        if (slot->descriptor) /* it waits */
            mr_deadline_watch(loop, descriptor, mr_direction_of(slot->request.kind));
        if (loop->iterations_are_slow)
            loop->backend->flush(loop);
    }
}

/* Starts an operation in a slot. It may have ended when this returns. */
static void begin(mr_loop *loop, mr_slot *slot, const mr_request *request)
{
    slot->request = *request;
    slot->descriptor = NULL;
    slot->transferred = 0;
    slot->end_reason = 0;
    slot->backoff_ms = 0;
    slot->has_begun = false;
    memset(&slot->backend_data, 0, sizeof slot->backend_data);
    slot->borrowed = NULL;
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

void mr_loop_flush_for_sleeper(mr_loop *loop)
{
    if (!atomic_load_explicit(&loop->sleeping, memory_order_relaxed))
        return;
    bool is_all_handed_over = loop->backend->flush(loop);
    if (!is_all_handed_over || loop->completed.first || mr_timer_watched_ns(&loop->wheel) < loop->wait_until_ns)
        mr_loop_wake(loop);
}

static mr_slot *reserve_slot(mr_loop *loop)
{
    mr_slot *slot = loop->free_slots;
    if (!slot)
        return mr_slot_create(loop);
    loop->free_slots = slot->queued;
    slot->state = MR_SLOT_RESERVED;
    return slot;
}

/* After this, a borrowed buffer belongs to the caller. */
static void fill_completion(mr_slot *slot, mr_completion *completion)
{
    completion->token = slot->token;
    completion->user_data = slot->request.user_data;
    completion->result = slot->result;
    completion->transferred = slot->transferred;
    completion->buffer = slot->borrowed;
    slot->borrowed = NULL;
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
        mr_slot_free(loop, slot);
        return MR_DONE;
    }
    mr_count(&loop->counters.parks, 1);
    return MR_PENDING;
}

static mr_status submit_timeout(mr_loop *loop, mr_timeout *timeout, const mr_request *request,
                                mr_completion *completion)
{
    int error = mr_timeout_start(loop, timeout, request);
    *completion = (mr_completion){.token = timeout->token, .user_data = request->user_data, .result = error};
    if (error) {
        mr_timeout_release(loop, timeout);
        return MR_DONE;
    }
    return MR_PENDING;
}

mr_status mr_loop_submit(mr_loop *loop, const mr_request *request, mr_completion *completion)
{
    bool is_timeout = request->kind == MR_TIMEOUT;
    mr_timeout *timeout = is_timeout ? mr_timeout_reserve(loop) : NULL;
    mr_slot *slot = is_timeout ? NULL : reserve_slot(loop);
    if (!timeout && !slot) {
        if (request->kind == MR_SEND_THEN_RECEIVE && mr_check_request(request) != -EINVAL)
            mr_buffers_free(&loop->buffers, request->buffer); /* see mr_send_then_receive_end */
        *completion = (mr_completion){.user_data = request->user_data, .result = -ENOMEM};
        return MR_DONE;
    }
    mr_status status = is_timeout ? submit_timeout(loop, timeout, request, completion)
                                  : submit_in_slot(loop, slot, request, completion);
    mr_loop_flush_for_sleeper(loop);
    return status;
}

int mr_loop_reserve(mr_loop *loop, mr_kind kind, mr_token *token)
{
    mr_timeout *timeout = kind == MR_TIMEOUT ? mr_timeout_reserve(loop) : NULL;
    mr_slot *slot = kind == MR_TIMEOUT ? NULL : reserve_slot(loop);
    if (!timeout && !slot)
        return -ENOMEM;
    *token = timeout ? timeout->token : slot->token;
    return 0;
}

static void start_timeout(mr_loop *loop, mr_token token, const mr_request *request)
{
    mr_timeout *timeout = mr_timeout_find(loop, token);
    if (!timeout || timeout->state != MR_SLOT_RESERVED)
        return;
    int error = mr_timeout_start(loop, timeout, request);
    if (error) {
        mr_timeout_start(loop, timeout, &(mr_request){.kind = MR_TIMEOUT, .user_data = request->user_data});
        mr_timeout_end(loop, timeout, error);
    }
}

void mr_loop_start(mr_loop *loop, mr_token token, const mr_request *request)
{
    if (mr_token_is_timeout(token)) {
        start_timeout(loop, token, request);
    } else {
        mr_slot *slot = mr_loop_find(loop, token);
        if (!slot || slot->state != MR_SLOT_RESERVED)
            return;
        begin(loop, slot, request);
    }
    mr_loop_flush_for_sleeper(loop);
}

/* The record of a token: a timeout, a slot, or neither if the token is stale. */
typedef struct record {
    mr_timeout *timeout;
    mr_slot *slot;
} record;

static record find_record(mr_loop *loop, mr_token token)
{
    if (mr_token_is_timeout(token))
        return (record){.timeout = mr_timeout_find(loop, token)};
    return (record){.slot = mr_loop_find(loop, token)};
}

/* An operation that another thread has started may still be in the mailbox. Start it before ending it or changing its
 * deadline. */
static void catch_up(mr_loop *loop)
{
    if (mr_mailbox_is_empty(&loop->mailbox))
        return;
    mr_loop_take_messages(loop);
    mr_loop_flush_for_sleeper(loop);
}

void mr_loop_cancel_here(mr_loop *loop, mr_token token)
{
    record found = find_record(loop, token);
    if (found.timeout)
        mr_timeout_end(loop, found.timeout, -ECANCELED);
    else if (found.slot)
        mr_loop_end_operation(loop, found.slot, -ECANCELED);
}

void mr_loop_cancel(mr_loop *loop, mr_token token)
{
    catch_up(loop);
    mr_loop_cancel_here(loop, token);
    mr_loop_flush_for_sleeper(loop);
}

/* fire_slot checks the deadline at the end of the pause. So the timer changes only if the deadline is earlier. */
static void shorten_backoff(mr_loop *loop, mr_slot *slot)
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
        shorten_backoff(loop, slot);
        return;
    }
    if (deadline_ns == MR_NO_DEADLINE)
        mr_timer_disarm(&loop->wheel, &slot->timer);
    else
        mr_deadline_arm(loop, slot);
}

void mr_loop_update_here(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    record found = find_record(loop, token);
    if (found.timeout)
        mr_timeout_update(loop, found.timeout, deadline_ns);
    else if (found.slot)
        update_slot(loop, found.slot, deadline_ns);
}

void mr_loop_update(mr_loop *loop, mr_token token, uint64_t deadline_ns)
{
    catch_up(loop);
    mr_loop_update_here(loop, token, deadline_ns);
    mr_loop_flush_for_sleeper(loop);
}

int mr_loop_discard(mr_loop *loop, mr_token token)
{
    catch_up(loop);
    record found = find_record(loop, token);
    return found.timeout && mr_timeout_discard(loop, found.timeout);
}

void mr_loop_release(mr_loop *loop, mr_token token)
{
    record found = find_record(loop, token);
    if (found.timeout)
        mr_timeout_release(loop, found.timeout);
    else if (found.slot && (found.slot->state == MR_SLOT_DELIVERED || found.slot->state == MR_SLOT_RESERVED))
        mr_slot_free(loop, found.slot);
}

mr_buffer *mr_loop_borrow(mr_loop *loop)
{
    return mr_buffers_alloc(&loop->buffers);
}

void mr_loop_give_back(mr_loop *loop, mr_buffer *buffer)
{
    mr_buffers_free(&loop->buffers, buffer);
}

/* ------------------------------------------------------------------------------------------- from other threads --- */

/*
 * Lost wake-ups are impossible because both sides first write, then read (all sequentially consistent): the waker sets
 * `woken`, then looks at `sleeping`; the sleeper sets `sleeping`, then looks at `woken`. One of them sees the other. A
 * waker that finds `woken` set need not do anything: the thread that has set it wakes the loop if necessary, and the
 * poll that clears it sees everything that was done before.
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
    bool is_overdue = slot->request.deadline_ns != MR_NO_DEADLINE && slot->request.deadline_ns <= now_ns;
    if (slot->state == MR_SLOT_PENDING || is_overdue) {
        mr_loop_end_operation(loop, slot, -ETIMEDOUT);
    } else {
        slot->state = MR_SLOT_PENDING;
        mr_deadline_arm(loop, slot);
        loop->backend->submit(loop, slot);
    }
}

static void fire_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, uint64_t now_ns)
{
    uint64_t deadline_ns = atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed);
    if (deadline_ns != MR_NO_DEADLINE && deadline_ns <= now_ns)
        mr_loop_end_direction(loop, descriptor, direction, -ETIMEDOUT);
    else
        mr_deadline_watch(loop, descriptor, direction);
}

/* Acts on a timer that has fired. Returns 1 if that filled in a completion, as a timeout does directly. */
static int fire(mr_loop *loop, mr_timer *timer, uint64_t now_ns, mr_completion *completion)
{
    switch ((mr_timer_owner)timer->position.owner) {
    case MR_TIMER_OF_SLOT:
        fire_slot(loop, (mr_slot *)timer, now_ns);
        break;
    case MR_TIMER_OF_TIMEOUT:
        mr_timeout_deliver(loop, (mr_timeout *)timer, completion);
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

/* Fires at most `capacity` due timers. Returns the number of completions. */
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
    while (count < capacity && loop->completed.first) {
        mr_slot *slot = mr_slot_queue_pop(&loop->completed);
        slot->state = MR_SLOT_DELIVERED;
        fill_completion(slot, &completions[count++]);
    }
    mr_count(&loop->counters.completions, (uint64_t)count);
    return count;
}

static uint64_t operations_of(const mr_loop *loop)
{
    return atomic_load_explicit(&loop->counters.operations, memory_order_relaxed);
}

/*
 * Between two polls the owner runs the threads that the first poll has woken. If one iteration took long, expect the
 * next one to. A quick one is evidence only if operations were submitted: an owner may poll twice in a row just to see
 * whether there is more.
 */
static void end_iteration(mr_loop *loop)
{
    if (!loop->iteration_began_ns)
        return;
    bool is_slow = mr_loop_now_ns(loop) - loop->iteration_began_ns > QUICK_ITERATION_NS;
    if (is_slow || loop->operations_before_iteration != operations_of(loop))
        loop->iterations_are_slow = is_slow;
}

static void begin_iteration(mr_loop *loop)
{
    loop->iteration_began_ns = mr_loop_now_ns(loop);
    loop->operations_before_iteration = operations_of(loop);
}

static int poll_all(mr_loop *loop, mr_completion *completions, int capacity)
{
    mr_loop_take_messages(loop);
    /* The backend polls before timers fire: bytes that arrived in time count, even if the deadline has passed
     * meanwhile. */
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
    end_iteration(loop);
    int count = poll_all(loop, completions, capacity);
    begin_iteration(loop);
    if (loop->group->checks_polls)
        mr_loop_check_after_poll(loop);
    return count;
}

int mr_loop_prepare_wait(mr_loop *loop)
{
    uint64_t next_ns = mr_timer_next_ns(&loop->wheel);
    mr_timer_watch(&loop->wheel);
    loop->wait_until_ns = next_ns;
    atomic_store(&loop->sleeping, true);
    bool has_work = atomic_load(&loop->woken) || !mr_mailbox_is_empty(&loop->mailbox) || loop->completed.first ||
                    next_ns == 0 || loop->backend->has_work(loop);
    if (has_work) {
        atomic_store(&loop->sleeping, false);
        return 0;
    }
    loop->iteration_began_ns = 0;
    mr_count(&loop->counters.waits, 1);
    mr_count(&loop->counters.system_calls, 1);
    return 1;
}

void mr_loop_wait(mr_loop *loop)
{
    loop->backend->wait(loop, loop->wait_until_ns);
}
