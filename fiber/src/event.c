/* event.c: events: a flag that stays set until it is reset, and its waiters. */
#include "select.h"

#include <errno.h>
#include <stdlib.h>

struct mr_event {
    mf_lock lock;
    bool is_set;
    mf_queue waiters;
};

int mr_event_create(mr_event **event)
{
    *event = calloc(1, sizeof **event);
    return *event ? 0 : -ENOMEM;
}

void mr_event_destroy(mr_event *event)
{
    free(event);
}

void mr_event_set(mr_event *event)
{
    mf_node *node;
    mf_lock_acquire(&event->lock);
    event->is_set = true;
    while ((node = mf_queue_claim(&event->waiters))) {
        node->result = 0;
        mf_wait_wake(node->wait);
    }
    mf_lock_release(&event->lock);
}

void mr_event_reset(mr_event *event)
{
    mf_lock_acquire(&event->lock);
    event->is_set = false;
    mf_lock_release(&event->lock);
}

bool mf_event_request(mr_event *event, mf_node *node)
{
    mf_lock_acquire(&event->lock);
    bool is_set = event->is_set;
    if (is_set && mf_wait_claim_own(node->wait, node->outcome))
        node->result = 0;
    else if (!is_set)
        mf_queue_push(&event->waiters, node);
    mf_lock_release(&event->lock);
    return is_set;
}

void mf_event_forget(mr_event *event, mf_node *node)
{
    mf_lock_acquire(&event->lock);
    mf_queue_remove(&event->waiters, node);
    mf_lock_release(&event->lock);
}

int mr_event_wait(mr_event *event, uint64_t deadline_ns)
{
    return mf_select_one(&(mr_case){.kind = MR_CASE_EVENT, .event = event}, deadline_ns);
}
