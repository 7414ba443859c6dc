/* slot.c: see slot.h. */
#include "loop.h"
#include "millrace_check.h"
#include "token.h"

uint32_t mr_token_loop(mr_token token)
{
    return (uint32_t)(token >> (MR_SLOT_BITS + MR_GENERATION_BITS));
}

uint32_t mr_token_slot(mr_token token)
{
    return (uint32_t)token & ((1u << MR_SLOT_BITS) - 1);
}

mr_slot *mr_slot_create(mr_loop *loop)
{
    uint32_t number;
    mr_slot *slot = mr_pool_extend(&loop->slots, sizeof *slot, MR_RECORDS_MAX, &number);
    if (!slot)
        return NULL;
    slot->token = mr_token_make(loop->group->epoch, loop->index, number, false);
    slot->state = MR_SLOT_RESERVED;
    return slot;
}

void mr_slot_free(mr_loop *loop, mr_slot *slot)
{
    MR_CHECK(slot->state != MR_SLOT_PENDING && slot->state != MR_SLOT_BACKOFF && slot->state != MR_SLOT_FREE);
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
