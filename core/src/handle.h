/*
 * handle.h: the group's table of adopted descriptors: which loops use one, and when it may be closed.
 *
 * An entry has the generation of a descriptor and the loops that use it. A loop joins an entry before its first
 * operation on it; a thread that makes a system call with the number holds the entry during the call. Closing refuses
 * further joins and holds, waits until all loops and threads have released the entry, and only then closes the number.
 * All threads share the entries; each entry has a lock that is held for a few instructions. The table knows loops only
 * by their index. Must not know: loops.
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
    uint32_t generation; /* of the last handle for this number */
    uint64_t loops;      /* bit i: a loop whose index is i modulo 64 has joined */
    unsigned holders;    /* holds to be released before it closes: those of threads and, while closing, of loops */
    mr_token closer;     /* while closing: the MR_CLOSE operation */
    _Atomic uint64_t deadlines_ns[MR_DIRECTIONS]; /* of all operations of a direction; loops read them at any time */
} mr_handle_entry;

typedef struct mr_handle_table {
    uint32_t first_generation; /* one less than the generation of a number's first handle; differs between tables */
    _Atomic(mr_handle_entry *) chunks[MR_HANDLE_CHUNKS];
} mr_handle_table;

uint32_t mr_handle_generation(mr_handle handle); /* 0: a foreign descriptor */
mr_handle mr_handle_make(int descriptor, uint32_t generation);

int mr_handle_adopt(mr_handle_table *table, int descriptor, mr_handle *handle);

bool mr_handle_is_open(mr_handle_table *table, mr_handle handle);

/* Finds the handle of the open descriptor with this number, or makes a foreign one. Returns 0, or -EBADF while it is
 * being closed. */
int mr_handle_of_number(mr_handle_table *table, int descriptor, mr_handle *handle);

/* Registers the loop as a user. Returns 0, or -EBADF if the handle is stale or closing. */
int mr_handle_join(mr_handle_table *table, mr_handle handle, uint32_t loop_index);

/* The address of a handle's deadlines, by direction, for a loop that has joined. */
const _Atomic uint64_t *mr_handle_deadlines_ns(mr_handle_table *table, mr_handle handle);

/* Sets the deadline of a direction. Returns 0 and the loops that must act because it is now earlier (bits as in
 * `loops`), or -EBADF. */
int mr_handle_set_deadline(mr_handle_table *table, mr_handle handle, mr_direction direction, uint64_t deadline_ns,
                           uint64_t *loops);

/* Returns 0 and the loops that have joined (bits as in `loops`), or -EBADF. */
int mr_handle_loops(mr_handle_table *table, mr_handle handle, uint64_t *loops);

/* Keeps the descriptor open until mr_handle_release. Returns 0, or -EBADF if the handle is stale or closing. */
int mr_handle_hold(mr_handle_table *table, mr_handle handle);

/* Begins to close. Returns 0 and the loops that have joined (bits as in `loops`), or -EBADF. The caller is now a
 * holder. It adds the loops that have joined as holders, asks each of them to release the handle, and then releases it
 * itself. */
int mr_handle_begin_close(mr_handle_table *table, mr_handle handle, mr_token closer, uint64_t *loops);
void mr_handle_add_holders(mr_handle_table *table, mr_handle handle, unsigned holders);

/* Ends the hold of one holder. Returns true if it was the last one and the handle is being closed; the operation
 * *closer must then call mr_handle_finish_close. */
bool mr_handle_release(mr_handle_table *table, mr_handle handle, mr_token *closer);

/* Makes the handle invalid. Close the descriptor only afterwards: its number may be adopted again at once. */
void mr_handle_finish_close(mr_handle_table *table, mr_handle handle);

/* For the child of a fork: forgets all joins and holds, and opens locks that other threads held. */
void mr_handle_reset_after_fork(mr_handle_table *table);

void mr_handle_table_free(mr_handle_table *table);

#endif
