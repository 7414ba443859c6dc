/*
 * select.c: waiting for the first of several cases.
 *
 * One pass over the cases tries each of them, and queues a node for a case that cannot happen yet. The first to claim
 * the wait decides it: one of the tries, or another fiber or thread that finds a queued node. Then the nodes are
 * removed.
 */
#include "select.h"
#include "carrier.h"
#include "random.h"
#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The state of one case: a node in the queue of its channel or event, or a watch of a descriptor. */
typedef struct entry {
    mf_node node;
    mf_watch watch;
    bool begun;
} entry;

static bool is_descriptor(const mr_case *c)
{
    return c->kind == MR_CASE_READABLE || c->kind == MR_CASE_WRITABLE;
}

/* Returns true when the wait is decided. */
static bool begin(entry *e, mr_case *c, mf_wait *wait, int index)
{
    e->begun = true;
    e->node = (mf_node){.wait = wait, .outcome = index, .item = c->item};
    switch (c->kind) {
    case MR_CASE_SEND:
        return mf_channel_offer(c->channel, &e->node);
    case MR_CASE_RECEIVE:
        return mf_channel_request(c->channel, &e->node);
    case MR_CASE_EVENT:
        return mf_event_request(c->event, &e->node);
    case MR_CASE_READABLE:
        mf_watch_begin(&e->watch, wait, index, c->descriptor, MR_WAIT_READABLE, 0);
        break;
    case MR_CASE_WRITABLE:
        mf_watch_begin(&e->watch, wait, index, c->descriptor, MR_WAIT_WRITABLE, 0);
        break;
    }
    return atomic_load(&wait->outcome) != MF_UNDECIDED;
}

static void end(entry *e, mr_case *c)
{
    if (!e->begun)
        return;
    if (is_descriptor(c)) {
        c->result = mf_watch_end(&e->watch);
        return;
    }
    if (c->kind == MR_CASE_EVENT)
        mf_event_forget(c->event, &e->node);
    else
        mf_channel_forget(c->channel, c->kind, &e->node);
    c->result = e->node.result;
}

static int select_once(mr_case *cases, entry *entries, size_t count, uint64_t deadline_ns)
{
    mf_wait wait;
    mf_wait_init(&wait);
    size_t first = count > 1 ? (size_t)mf_random_below((unsigned)count) : 0;
    bool decided = false;
    for (size_t i = 0; i < count && !decided; i++) {
        size_t index = (first + i) % count;
        decided = begin(&entries[index], &cases[index], &wait, (int)index);
    }
    int outcome = mf_wait_park(&wait, deadline_ns, MF_INTERRUPTIBLE);
    for (size_t i = 0; i < count; i++)
        end(&entries[i], &cases[i]);
    return mf_wait_result(outcome);
}

static int select_here(mr_case *cases, entry *entries, size_t count, uint64_t deadline_ns)
{
    int outcome;
    do {
        memset(entries, 0, count * sizeof *entries);
        outcome = select_once(cases, entries, count, deadline_ns);
    } while (outcome >= 0 && is_descriptor(&cases[outcome]) && cases[outcome].result == MF_WATCH_REPLACED);
    return outcome;
}

/* An OS thread has no loop, so a fiber waits for the descriptors on its behalf. */
typedef struct helper_call {
    mr_case *cases;
    size_t count;
    uint64_t deadline_ns;
    int outcome;
} helper_call;

static void *run_helper_call(void *argument)
{
    helper_call *e = argument;
    e->outcome = mr_select(e->cases, e->count, e->deadline_ns);
    return NULL;
}

static int select_on_fiber(mr_case *cases, size_t count, uint64_t deadline_ns)
{
    helper_call e = {.cases = cases, .count = count, .deadline_ns = deadline_ns};
    mr_fiber *fiber;
    int error = mr_fiber_spawn(&fiber, &(mr_fiber_options){.name = "select"}, run_helper_call, &e);
    if (error)
        return error;
    mr_fiber_join(fiber, NULL);
    return e.outcome;
}

int mr_select(mr_case *cases, size_t count, uint64_t deadline_ns)
{
    if (count == 0 || count > MR_CASES_MAX)
        return -EINVAL;
    bool has_descriptor = false;
    for (size_t i = 0; i < count; i++)
        has_descriptor |= is_descriptor(&cases[i]);
    if (has_descriptor && !mf_current)
        return select_on_fiber(cases, count, deadline_ns);
    entry *entries = malloc(count * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    int outcome = select_here(cases, entries, count, deadline_ns);
    free(entries);
    return outcome;
}

int mf_select_one(mr_case *only, uint64_t deadline_ns)
{
    entry e;
    int outcome = select_here(only, &e, 1, deadline_ns);
    return outcome < 0 ? outcome : only->result;
}
