/* ownership.c: the table of locks and the fibers that own them. */
#include "ownership.h"
#include "../carrier.h"
#include "../check.h"
#include "../lock.h"
#include "fork.h"
#include "waiters.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct ownership {
    struct ownership *next;
    const void *lock;
    const mr_fiber *owner;
    const mf_carrier *carrier; /* the owner's */
    unsigned depth;
} ownership;

static struct {
    mf_lock lock;
    ownership *first;
} owned[MF_ADDRESS_BUCKETS];

/* A thread or fiber that held a bucket's lock does not exist in the child. The owners stay, because one of them may
 * be the fiber that forked. */
void mf_ownership_forget_after_fork(void)
{
    for (size_t i = 0; i < MF_ADDRESS_BUCKETS; i++)
        atomic_store(&owned[i].lock.state, 0);
}

typedef bool owner_test(const ownership *each);

static bool is_by_caller(const ownership *each)
{
    return each->owner == mf_current;
}

static bool is_by_sibling(const ownership *each)
{
    return each->owner != mf_current && each->carrier == mf_this_carrier;
}

/* Finds the link to an ownership, or the end of the list. The caller holds the bucket's lock. */
static ownership **find(size_t index, const void *lock, owner_test *is_wanted)
{
    ownership **link = &owned[index].first;
    while (*link && ((*link)->lock != lock || !is_wanted(*link)))
        link = &(*link)->next;
    return link;
}

static bool is_owned(const void *lock, owner_test *is_wanted)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_acquire(&owned[index].lock);
    bool found = *find(index, lock, is_wanted) != NULL;
    mf_lock_release(&owned[index].lock);
    return found;
}

bool mf_ownership_is_by_sibling(const void *lock)
{
    return is_owned(lock, is_by_sibling);
}

bool mf_ownership_is_by_caller(const void *lock)
{
    return is_owned(lock, is_by_caller);
}

void mf_ownership_begin(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    ownership *fresh = malloc(sizeof *fresh);
    mf_lock_acquire(&owned[index].lock);
    ownership *found = *find(index, lock, is_by_caller);
    if (!found && fresh) {
        *fresh = (ownership){.next = owned[index].first, .lock = lock, .owner = mf_current, .carrier = mf_this_carrier};
        found = owned[index].first = fresh;
        fresh = NULL;
    }
    if (found)
        found->depth++;
    mf_lock_release(&owned[index].lock);
    free(fresh);
}

void mf_ownership_end(const void *lock)
{
    size_t index = mf_address_bucket(lock);
    mf_lock_acquire(&owned[index].lock);
    ownership **link = find(index, lock, is_by_caller), *gone = *link;
    MR_CHECK(!gone || gone->depth > 0);
    if (gone && --gone->depth == 0)
        *link = gone->next;
    else
        gone = NULL;
    mf_lock_release(&owned[index].lock);
    free(gone);
}
