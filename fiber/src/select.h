/*
 * select.h: the functions that a kind of object must have so that mr_select can wait for it.
 */
#ifndef MILLRACE_FIBER_SELECT_H
#define MILLRACE_FIBER_SELECT_H

#include "wait.h"

/*
 * Lets the case happen at once if it can and if `node` can be claimed. Otherwise it queues the node. Returns true
 * when nothing is left to do for this wait: either the case happened (node->result says how), or something else was
 * decided before. If node->wait is NULL it only tries.
 */
bool mf_channel_offer(mr_channel *channel, mf_node *node);   /* sends node->item */
bool mf_channel_request(mr_channel *channel, mf_node *node); /* receives into node->item */
bool mf_event_request(mr_event *event, mf_node *node);

/* Removes the node again. */
void mf_channel_forget(mr_channel *channel, mr_case_kind kind, mf_node *node);
void mf_event_forget(mr_event *event, mf_node *node);

/* Waits for one case. Returns its result, or the error that ended the wait. */
int mf_select_one(mr_case *only, uint64_t deadline_ns);

#endif
