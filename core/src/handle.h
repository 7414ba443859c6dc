/*
 * handle.h: who may use a descriptor number, and when it may be closed.
 *
 * A group keeps an entry per adopted descriptor: its generation and the loops that know it. A loop joins an entry
 * before its first operation on it; a thread that makes a call of its own with the number holds the entry meanwhile. Closing
 * stops further joins and holds, waits until all of them have let go, and only then gives the number back to the system.
 * Entries are shared by all threads; each has a lock that is held for a few instructions. Loops are
 * known by their index here. Must not know: loops.
 */
#ifndef MILLRACE_HANDLE_H
#define MILLRACE_HANDLE_H

#include "millrace.h"

#include <stdatomic.h>
#include <stdbool.h>

#define MR_HANDLE_CHUNK    1024
#define MR_HANDLE_CHUNKS   16384
#define MR_DESCRIPTORS_MAX (MR_HANDLE_CHUNK * MR_HANDLE_CHUNKS) /* Numbers are less than this. */

typedef struct mr_handle_entry {
    atomic_flag lock;
    bool open;
    bool closing;
    uint32_t generation; /* of the last handle given out for this number */
    uint64_t loops;      /* bit i: a loop whose index is i modulo 64 has joined */
    unsigned holders; /* what must be released before it is closed: calls that hold it, and while closing the loops */
    mr_token closer;  /* while closing: the MR_CLOSE operation */
    _Atomic uint64_t deadlines_ns[MR_DIRECTIONS]; /* of all operations of a direction; loops read them at any time */
} mr_handle_entry;

typedef struct mr_handle_table {
    uint32_t first_generation; /* less than that of a number's first handle: tables are told apart by it */
    _Atomic(mr_handle_entry *) chunks[MR_HANDLE_CHUNKS];
} mr_handle_table;

uint32_t mr_handle_generation(mr_handle handle); /* 0: a foreign descriptor */
mr_handle mr_handle_make(int descriptor, uint32_t generation);

int mr_handle_adopt(mr_handle_table *table, int descriptor, mr_handle *handle);

bool mr_handle_is_open(mr_handle_table *table, mr_handle handle);

/* The handle that means the open descriptor of this number, or else a foreign one. -EBADF while it is being closed. */
int mr_handle_of_number(mr_handle_table *table, int descriptor, mr_handle *handle);

/* Registers the loop as a user. 0, or -EBADF if the handle is stale or closing. */
int mr_handle_join(mr_handle_table *table, mr_handle handle, uint32_t loop_index);

/* Where a handle's deadlines are, by direction, for a loop that has joined. */
const _Atomic uint64_t *mr_handle_deadlines_ns(mr_handle_table *table, mr_handle handle);

/* Sets the deadline of a direction. 0 and the set of loops that must be told because it is now earlier (bits as above),
 * or -EBADF. */
int mr_handle_set_deadline(mr_handle_table *table, mr_handle handle, mr_direction direction, uint64_t deadline_ns,
                           uint64_t *loops);

/* The set of loops that joined (bits as above), or -EBADF. */
int mr_handle_loops(mr_handle_table *table, mr_handle handle, uint64_t *loops);

/* Keeps the descriptor from being closed. 0, or -EBADF if the handle is stale or closing. */
int mr_handle_hold(mr_handle_table *table, mr_handle handle);

/* Begins to close. 0 and the set of loops that joined (bits as above), or -EBADF. The caller is a holder from here on;
 * it adds the loops that joined as holders, asks each of them to let go, and then lets go itself. */
int mr_handle_begin_close(mr_handle_table *table, mr_handle handle, mr_token closer, uint64_t *loops);
void mr_handle_add_holders(mr_handle_table *table, mr_handle handle, unsigned holders);

/* A holder gives up its hold. Returns true if it was the last one and the handle is being closed; *closer is then the
 * operation that may call mr_handle_finish_close. */
bool mr_handle_let_go(mr_handle_table *table, mr_handle handle, mr_token *closer);

/* Retires the handle. Only then may the descriptor be closed: its number may be adopted anew at once. */
void mr_handle_finish_close(mr_handle_table *table, mr_handle handle);

/* In the child of a fork: no loop has joined anything, and a lock that another thread held is open again. */
void mr_handle_reset_after_fork(mr_handle_table *table);

void mr_handle_table_free(mr_handle_table *table);

#endif
