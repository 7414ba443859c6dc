/*
 * select.h: the functions through which mr_select waits for channels and events.
 */
#ifndef MILLRACE_FIBER_SELECT_H
#define MILLRACE_FIBER_SELECT_H

#include "wait.h"

/*
 * Try a case: it happens at once if the channel or event allows it and this call claims the wait of `node`. Otherwise
 * the node is queued. Return true if the wait is decided: the case has happened (node->result is its result), or
 * another case decided the wait before. If node->wait is NULL, they only try and queue nothing.
 */
bool mf_channel_offer(mr_channel *channel, mf_node *node);   /* sends node->item */
bool mf_channel_request(mr_channel *channel, mf_node *node); /* receives into node->item */
bool mf_event_request(mr_event *event, mf_node *node);

/* Remove a node that an offer or request has queued, if it is still there. Call this when the wait has ended. */
void mf_channel_forget(mr_channel *channel, mr_case_kind kind, mf_node *node);
void mf_event_forget(mr_event *event, mf_node *node);

/* Waits for one case. Returns its result, or the error that ended the wait. */
int mf_select_one(mr_case *only, uint64_t deadline_ns);

#endif
