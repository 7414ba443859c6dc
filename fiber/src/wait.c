/*
 * wait.c: deciding waits, parking, and the operations that a parked fiber waits for. Must not know: interposed
 * functions, channels, descriptors.
 */
#include "wait.h"
#include "carrier.h"
#include "check.h"
#include "futex.h"

#include <errno.h>
#include <stddef.h>

#define NS_PER_MS UINT64_C(1000000)

void mf_wait_init(mf_wait *wait)
{
    atomic_init(&wait->outcome, MF_UNDECIDED);
    atomic_init(&wait->word, 0);
    wait->fiber = mf_current;
    wait->decided_itself = false;
}

bool mf_wait_claim(mf_wait *wait, int outcome)
{
    int expected = MF_UNDECIDED;
    return atomic_compare_exchange_strong(&wait->outcome, &expected, outcome);
}

bool mf_wait_claim_own(mf_wait *wait, int outcome)
{
    bool claimed = mf_wait_claim(wait, outcome);
    wait->decided_itself |= claimed;
    return claimed;
}

void mf_wait_wake(mf_wait *wait)
{
    MR_CHECK(atomic_load_explicit(&wait->outcome, memory_order_relaxed) != MF_UNDECIDED);
    if (wait->fiber) {
        mf_make_ready(wait->fiber);
    } else {
        atomic_store(&wait->word, 1);
        mf_futex_wake(&wait->word, 1);
    }
}

static int park_thread(mf_wait *wait, uint64_t deadline_ns)
{
    while (!atomic_load(&wait->word)) {
        mf_futex_wait(&wait->word, 0, deadline_ns);
        if (deadline_ns != MR_NO_DEADLINE && mr_clock_now_ns() >= deadline_ns) {
            if (mf_wait_claim(wait, MF_DEADLINE_PASSED))
                break;
            deadline_ns = MR_NO_DEADLINE; /* another thread has just decided the wait and will set `word` */
        }
    }
    return atomic_load(&wait->outcome);
}

/* An interruption that came before the wait ends it at once. A rousable wait ignores one that has already ended a
   wait. */
static void accept_interruption(mr_fiber *fiber, mf_wait *wait, mf_interruptibility interruptibility)
{
    bool is_new = fiber->interruption && (interruptibility == MF_INTERRUPTIBLE || !fiber->has_roused);
    if (!is_new || !mf_wait_claim_own(wait, -fiber->interruption))
        return;
    fiber->interrupted_by = fiber->interruption;
    fiber->interruption = 0;
    fiber->has_roused = false;
}

static void leave_interruption_to_next(mr_fiber *fiber)
{
    if (!fiber->interrupted_by)
        return;
    mf_wait_put_interruption_back(fiber->interrupted_by);
    fiber->has_roused = true;
}

static int park_fiber(mf_wait *wait, uint64_t deadline_ns, mf_interruptibility interruptibility)
{
    mr_fiber *fiber = wait->fiber;
    mf_operation timer = {0};
    fiber->interrupted_by = 0;
    if (interruptibility != MF_UNINTERRUPTIBLE)
        accept_interruption(fiber, wait, interruptibility);
    if (deadline_ns != MR_NO_DEADLINE && !wait->decided_itself)
        mf_operation_start(&timer, wait, MF_DEADLINE_PASSED,
                           &(mr_request){.kind = MR_TIMEOUT, .deadline_ns = deadline_ns});
    if (!wait->decided_itself) {
        fiber->waiting = interruptibility == MF_UNINTERRUPTIBLE ? NULL : wait;
        mf_suspend();
        fiber->waiting = NULL;
    }
    mf_operation_end(&timer);
    if (interruptibility == MF_ROUSABLE)
        leave_interruption_to_next(fiber);
    return atomic_load(&wait->outcome);
}

int mf_wait_park(mf_wait *wait, uint64_t deadline_ns, mf_interruptibility interruptibility)
{
    if (wait->decided_itself)
        return atomic_load(&wait->outcome);
    return wait->fiber ? park_fiber(wait, deadline_ns, interruptibility) : park_thread(wait, deadline_ns);
}

void mf_wait_put_interruption_back(int error)
{
    mr_fiber *fiber = mf_current;
    if (fiber->interrupted_by == error && !fiber->interruption)
        fiber->interruption = error;
    fiber->interrupted_by = 0;
}

void mf_wait_a_millisecond(void)
{
    mf_wait wait;
    mf_wait_init(&wait);
    mf_wait_park(&wait, mr_clock_now_ns() + NS_PER_MS, MF_UNINTERRUPTIBLE);
}

/* --------------------------------------------------------------------------------------------------- the queue --- */

void mf_queue_push(mf_queue *queue, mf_node *node)
{
    MR_CHECK(!node->queued);
    node->queued = true;
    node->next = NULL;
    node->previous = queue->last;
    if (queue->last)
        queue->last->next = node;
    else
        queue->first = node;
    queue->last = node;
}

void mf_queue_remove(mf_queue *queue, mf_node *node)
{
    if (!node->queued)
        return;
    node->queued = false;
    if (node->previous)
        node->previous->next = node->next;
    else
        queue->first = node->next;
    if (node->next)
        node->next->previous = node->previous;
    else
        queue->last = node->previous;
}

mf_node *mf_queue_claim(mf_queue *queue)
{
    mf_node *node;
    while ((node = queue->first)) {
        mf_queue_remove(queue, node);
        if (mf_wait_claim(node->wait, node->outcome))
            return node;
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------- operations --- */

void mf_operation_start(mf_operation *operation, mf_wait *wait, int outcome, const mr_request *request)
{
    mr_request own = *request;
    mr_completion completion;
    *operation = (mf_operation){.wait = wait, .outcome = outcome};
    own.user_data = (uint64_t)(uintptr_t)operation;
    int error = errno;
    mr_fiber *fiber = mf_enter_core();
    mr_status status = mr_loop_submit(fiber->carrier->loop, &own, &completion);
    mf_leave_core(fiber);
    errno = error;
    operation->token = completion.token;
    operation->pending = status == MR_PENDING;
    operation->result = completion.result;
    if (status == MR_DONE)
        mf_wait_claim_own(wait, outcome);
}

void mf_operation_cancel(mf_operation *operation)
{
    if (!operation->pending || operation->cancelled)
        return;
    int error = errno;
    mr_fiber *fiber = mf_enter_core();
    mr_loop *loop = fiber->carrier->loop;
    if (mr_loop_discard(loop, operation->token)) {
        mr_loop_release(loop, operation->token);
        operation->pending = false;
    } else {
        mr_loop_cancel(loop, operation->token);
        operation->cancelled = true;
    }
    mf_leave_core(fiber);
    errno = error;
}

void mf_operation_end(mf_operation *operation)
{
    mf_operation_cancel(operation);
    operation->awaiting = mf_current;
    while (operation->pending)
        mf_suspend();
}

void mf_operation_complete(mf_operation *operation, int64_t result)
{
    MR_CHECK(operation->pending); /* otherwise it has ended before, and its memory may be in use for something else */
    operation->pending = false;
    operation->result = result;
    if (operation->awaiting)
        mf_make_ready(operation->awaiting);
    else if (mf_wait_claim(operation->wait, operation->outcome))
        mf_wait_wake(operation->wait);
}
