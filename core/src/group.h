/*
 * group.h: the loops of one program, with the backend that they share and the table of their descriptors.
 *
 * Must not know: system calls.
 */
#ifndef MILLRACE_GROUP_H
#define MILLRACE_GROUP_H

#include "handle.h"
#include "millrace.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What time it is, in nanoseconds, for the loops of a group. */
typedef uint64_t mr_group_clock(const mr_group *group);

/* Who uses a loop: any thread at a time, or always the same one. */
typedef enum mr_owners { MR_OWNERS_CHANGE, MR_OWNERS_ARE_FIXED } mr_owners;

struct mr_group {
    mr_handle_table handles;
    /* of the tokens of its loops; no other group in this process has had it, nor had this one before a fork */
    uint32_t epoch;
    const struct mr_backend_operations *backend;
    mr_backend backend_id;
    struct mr_machine *machine; /* simulated: what the loops work on */
    mr_group_clock *now_ns;
    bool checks_polls; /* simulated: mr_loop_check after polls */
    mr_owners owners;  /* see mr_group_create_with_owned_loops */
    atomic_uint loop_count;
    _Atomic(mr_loop *) loops[MR_LOOPS_MAX];
};

/* A group whose loops use this backend and go by this clock. 0 or -ENOMEM. */
int mr_group_on(mr_backend id, const struct mr_backend_operations *backend, mr_group_clock *now_ns, mr_group **group);

/* The loops of a set (see mr_handle_begin_close) but for one. Returns how many. */
unsigned mr_group_other_loops(mr_group *group, uint64_t joined, const mr_loop *except, mr_loop *others[MR_LOOPS_MAX]);

#endif
