/* deadline.c: see deadline.h. */
#include "deadline.h"

void mr_deadline_begin(const mr_loop *loop, mr_slot *slot)
{
    slot->request.flags &= ~MR_WITHIN;
    if (slot->request.deadline_ns == MR_NO_DEADLINE)
        return;
    uint64_t now_ns = mr_loop_now_ns(loop), length_ns = slot->request.deadline_ns;
    slot->request.deadline_ns = length_ns < UINT64_MAX - now_ns ? now_ns + length_ns : UINT64_MAX;
}

void mr_deadline_arm(mr_loop *loop, mr_slot *slot)
{
    mr_deadline_fix(loop, slot);
    if (slot->request.deadline_ns != MR_NO_DEADLINE)
        mr_timer_arm(&loop->wheel, &slot->timer, slot->request.deadline_ns);
}

void mr_deadline_watch(mr_loop *loop, mr_descriptor *descriptor, int direction)
{
    if (!descriptor->may_have_deadline[direction] || !descriptor->first[direction])
        return;
    uint64_t deadline_ns = atomic_load_explicit(&descriptor->deadlines_ns[direction], memory_order_relaxed);
    if (deadline_ns != MR_NO_DEADLINE)
        mr_timer_arm(&loop->wheel, &descriptor->timers[direction], deadline_ns);
}
