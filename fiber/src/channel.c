/* channel.c: bounded channels. An item goes directly to a waiting receiver, or into the ring if there is none. */
#include "select.h"
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mr_channel {
    mf_lock lock;
    size_t item_size_bytes;
    size_t capacity;
    size_t first; /* index of the oldest item */
    size_t count;
    bool closed;
    mf_queue senders, receivers;
    char items[];
};

int mr_channel_create(mr_channel **result, size_t item_size_bytes, size_t capacity)
{
    size_t bytes;
    if (!item_size_bytes || !capacity || __builtin_mul_overflow(item_size_bytes, capacity, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(mr_channel), &bytes))
        return -EINVAL;
    mr_channel *channel = calloc(1, bytes);
    if (!channel)
        return -ENOMEM;
    channel->item_size_bytes = item_size_bytes;
    channel->capacity = capacity;
    *result = channel;
    return 0;
}

void mr_channel_destroy(mr_channel *channel)
{
    free(channel);
}

static void *item_at(mr_channel *channel, size_t index)
{
    return channel->items + index % channel->capacity * channel->item_size_bytes;
}

static void append(mr_channel *channel, const void *item)
{
    MR_CHECK(channel->count < channel->capacity);
    memcpy(item_at(channel, channel->first + channel->count), item, channel->item_size_bytes);
    channel->count++;
}

static void remove_oldest(mr_channel *channel, void *item)
{
    MR_CHECK(channel->count > 0);
    memcpy(item, item_at(channel, channel->first), channel->item_size_bytes);
    channel->first = (channel->first + 1) % channel->capacity;
    channel->count--;
}

/* Claims the wait of `node`, if it has one. Returns false if the wait was decided before. */
static bool claim_own(mf_node *node)
{
    return !node->wait || mf_wait_claim_own(node->wait, node->outcome);
}

static bool wait_in(mf_queue *queue, mf_node *node)
{
    node->result = -EAGAIN;
    if (node->wait)
        mf_queue_push(queue, node);
    return false;
}

static bool offer(mr_channel *channel, mf_node *node)
{
    if (!channel->closed && channel->count == channel->capacity)
        return wait_in(&channel->senders, node);
    if (!claim_own(node))
        return true;
    node->result = channel->closed ? -EPIPE : 0;
    if (channel->closed)
        return true;
    mf_node *receiver = mf_queue_claim(&channel->receivers);
    if (receiver) {
        memcpy(receiver->item, node->item, channel->item_size_bytes);
        receiver->result = 0;
        mf_wait_wake(receiver->wait);
    } else {
        append(channel, node->item);
    }
    return true;
}

static bool request(mr_channel *channel, mf_node *node)
{
    if (!channel->closed && channel->count == 0)
        return wait_in(&channel->receivers, node);
    if (!claim_own(node))
        return true;
    node->result = channel->count ? 0 : -EPIPE;
    if (!channel->count)
        return true;
    remove_oldest(channel, node->item);
    mf_node *sender = mf_queue_claim(&channel->senders);
    if (sender) {
        append(channel, sender->item);
        sender->result = 0;
        mf_wait_wake(sender->wait);
    }
    return true;
}

bool mf_channel_offer(mr_channel *channel, mf_node *node)
{
    mf_lock_acquire(&channel->lock);
    bool settled = offer(channel, node);
    mf_lock_release(&channel->lock);
    return settled;
}

bool mf_channel_request(mr_channel *channel, mf_node *node)
{
    mf_lock_acquire(&channel->lock);
    bool settled = request(channel, node);
    mf_lock_release(&channel->lock);
    return settled;
}

void mf_channel_forget(mr_channel *channel, mr_case_kind kind, mf_node *node)
{
    mf_lock_acquire(&channel->lock);
    mf_queue_remove(kind == MR_CASE_SEND ? &channel->senders : &channel->receivers, node);
    mf_lock_release(&channel->lock);
}

static void refuse_all(mf_queue *queue)
{
    mf_node *node;
    while ((node = mf_queue_claim(queue))) {
        node->result = -EPIPE;
        mf_wait_wake(node->wait);
    }
}

void mr_channel_close(mr_channel *channel)
{
    mf_lock_acquire(&channel->lock);
    channel->closed = true;
    refuse_all(&channel->senders);
    refuse_all(&channel->receivers); /* if receivers wait, the channel is empty */
    mf_lock_release(&channel->lock);
}

int mr_channel_send(mr_channel *channel, const void *item, uint64_t deadline_ns)
{
    return mf_select_one(&(mr_case){.kind = MR_CASE_SEND, .channel = channel, .item = (void *)item}, deadline_ns);
}

int mr_channel_receive(mr_channel *channel, void *item, uint64_t deadline_ns)
{
    return mf_select_one(&(mr_case){.kind = MR_CASE_RECEIVE, .channel = channel, .item = item}, deadline_ns);
}

int mr_channel_try_send(mr_channel *channel, const void *item)
{
    mf_node node = {.item = (void *)item};
    mf_channel_offer(channel, &node);
    return node.result;
}

int mr_channel_try_receive(mr_channel *channel, void *item)
{
    mf_node node = {.item = item};
    mf_channel_request(channel, &node);
    return node.result;
}
