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

/* Returns the time, in nanoseconds, for the loops of a group. */
typedef uint64_t mr_group_clock(const mr_group *group);

/* Whether a loop's owner may change from thread to thread, or is always the same one. */
typedef enum mr_owners { MR_OWNERS_CHANGE, MR_OWNERS_ARE_FIXED } mr_owners;

struct mr_group {
    mr_handle_table handles;
    /* for the tokens of its loops; no other group in this process has had it, nor this one before a fork */
    uint32_t epoch;
    const struct mr_backend_operations *backend;
    mr_backend backend_id;
    struct mr_machine *machine; /* the simulated machine that the loops work on, or NULL */
    mr_group_clock *now_ns;
    bool checks_polls; /* simulated: mr_loop_check after polls */
    mr_owners owners;  /* see mr_group_create_with_owned_loops */
    atomic_uint loop_count;
    _Atomic(mr_loop *) loops[MR_LOOPS_MAX];
};

/* Creates a group whose loops use this backend and this clock. Returns 0 or -ENOMEM. */
int mr_group_create_on(mr_backend id, const struct mr_backend_operations *backend, mr_group_clock *now_ns,
                       mr_group **group);

/* Lists the loops of a set (see mr_handle_begin_close), except one. Returns their number. */
unsigned mr_group_other_loops(mr_group *group, uint64_t joined, const mr_loop *except, mr_loop *others[MR_LOOPS_MAX]);

#endif
