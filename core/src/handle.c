/* handle.c: the shared table of adopted descriptors; see handle.h for the protocol. */
#include "handle.h"
#include "millrace_check.h"

#include <errno.h>
#include <stdlib.h>

uint32_t mr_handle_generation(mr_handle handle)
{
    return (uint32_t)(handle >> 32);
}

int mr_handle_descriptor(mr_handle handle)
{
    return (int)(uint32_t)handle;
}

mr_handle mr_handle_foreign(int descriptor)
{
    return mr_handle_make(descriptor, 0);
}

mr_handle mr_handle_make(int descriptor, uint32_t generation)
{
    return (mr_handle)generation << 32 | (uint32_t)descriptor;
}

static void lock(mr_handle_entry *entry)
{
    while (atomic_flag_test_and_set_explicit(&entry->lock, memory_order_acquire))
        ;
}

static void unlock(mr_handle_entry *entry)
{
    atomic_flag_clear_explicit(&entry->lock, memory_order_release);
}

static mr_handle_entry *find(mr_handle_table *table, int descriptor)
{
    if (descriptor < 0 || descriptor >= MR_DESCRIPTORS_MAX)
        return NULL;
    mr_handle_entry *chunk = atomic_load(&table->chunks[descriptor / MR_HANDLE_CHUNK]);
    return chunk ? &chunk[descriptor % MR_HANDLE_CHUNK] : NULL;
}

static mr_handle_entry *find_or_create(mr_handle_table *table, int descriptor)
{
    if (descriptor >= MR_DESCRIPTORS_MAX)
        return NULL;
    if (!find(table, descriptor)) {
        mr_handle_entry *fresh = calloc(MR_HANDLE_CHUNK, sizeof *fresh);
        mr_handle_entry *expected = NULL;
        if (!fresh)
            return NULL;
        for (int i = 0; i < MR_HANDLE_CHUNK; i++)
            fresh[i].generation = table->first_generation;
        if (!atomic_compare_exchange_strong(&table->chunks[descriptor / MR_HANDLE_CHUNK], &expected, fresh))
            free(fresh); /* another thread was faster */
    }
    return find(table, descriptor);
}

int mr_handle_adopt(mr_handle_table *table, int descriptor, mr_handle *handle)
{
    if (descriptor < 0)
        return -EBADF;
    mr_handle_entry *entry = find_or_create(table, descriptor);
    if (!entry)
        return -ENOMEM;
    lock(entry);
    entry->generation = entry->generation == INT32_MAX ? 1 : entry->generation + 1;
    entry->open = true;
    entry->closing = false;
    entry->loops = 0;
    entry->holders = 0;
    for (int direction = 0; direction < MR_DIRECTIONS; direction++)
        atomic_store(&entry->deadlines_ns[direction], MR_NO_DEADLINE);
    *handle = mr_handle_make(descriptor, entry->generation);
    unlock(entry);
    return 0;
}

/* Locks and returns the entry if the handle may be used, or returns NULL. */
static mr_handle_entry *lock_current(mr_handle_table *table, mr_handle handle)
{
    mr_handle_entry *entry = find(table, mr_handle_descriptor(handle));
    if (!entry)
        return NULL;
    lock(entry);
    if (entry->open && !entry->closing && entry->generation == mr_handle_generation(handle))
        return entry;
    unlock(entry);
    return NULL;
}

bool mr_handle_is_open(mr_handle_table *table, mr_handle handle)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (entry)
        unlock(entry);
    return entry;
}

int mr_handle_of_number(mr_handle_table *table, int descriptor, mr_handle *handle)
{
    mr_handle_entry *entry = find(table, descriptor);
    *handle = mr_handle_foreign(descriptor);
    if (!entry)
        return 0;
    lock(entry);
    bool is_closing = entry->closing;
    if (entry->open)
        *handle = mr_handle_make(descriptor, entry->generation);
    unlock(entry);
    return is_closing ? -EBADF : 0;
}

int mr_handle_join(mr_handle_table *table, mr_handle handle, uint32_t loop_index)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (!entry)
        return -EBADF;
    entry->loops |= UINT64_C(1) << (loop_index % 64);
    unlock(entry);
    return 0;
}

const _Atomic uint64_t *mr_handle_deadlines_ns(mr_handle_table *table, mr_handle handle)
{
    return find(table, mr_handle_descriptor(handle))->deadlines_ns;
}

int mr_handle_set_deadline(mr_handle_table *table, mr_handle handle, mr_direction direction, uint64_t deadline_ns,
                           uint64_t *loops)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (!entry)
        return -EBADF;
    /* No deadline (0) counts as the latest one: 0 - 1 is the largest number. */
    uint64_t before_ns = atomic_load_explicit(&entry->deadlines_ns[direction], memory_order_relaxed);
    atomic_store_explicit(&entry->deadlines_ns[direction], deadline_ns, memory_order_relaxed);
    *loops = deadline_ns - 1 < before_ns - 1 ? entry->loops : 0;
    unlock(entry);
    return 0;
}

int mr_handle_loops(mr_handle_table *table, mr_handle handle, uint64_t *loops)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (!entry)
        return -EBADF;
    *loops = entry->loops;
    unlock(entry);
    return 0;
}

int mr_handle_hold(mr_handle_table *table, mr_handle handle)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (!entry)
        return -EBADF;
    entry->holders++;
    unlock(entry);
    return 0;
}

int mr_handle_begin_close(mr_handle_table *table, mr_handle handle, mr_token closer, uint64_t *loops)
{
    mr_handle_entry *entry = lock_current(table, handle);
    if (!entry)
        return -EBADF;
    entry->closing = true;
    entry->closer = closer;
    entry->holders++;
    *loops = entry->loops;
    unlock(entry);
    return 0;
}

void mr_handle_add_holders(mr_handle_table *table, mr_handle handle, unsigned holders)
{
    mr_handle_entry *entry = find(table, mr_handle_descriptor(handle));
    lock(entry);
    entry->holders += holders;
    unlock(entry);
}

bool mr_handle_release(mr_handle_table *table, mr_handle handle, mr_token *closer)
{
    mr_handle_entry *entry = find(table, mr_handle_descriptor(handle));
    lock(entry);
    MR_CHECK(entry->holders > 0); /* otherwise the descriptor would be closed while it is in use */
    bool is_last = --entry->holders == 0 && entry->closing;
    *closer = entry->closer; /* read under the lock: afterwards the entry may already serve the next descriptor */
    unlock(entry);
    return is_last;
}

void mr_handle_finish_close(mr_handle_table *table, mr_handle handle)
{
    mr_handle_entry *entry = find(table, mr_handle_descriptor(handle));
    lock(entry);
    MR_CHECK(entry->open && entry->closing && entry->holders == 0);
    entry->open = false;
    entry->closing = false;
    unlock(entry);
}

void mr_handle_reset_after_fork(mr_handle_table *table)
{
    for (int i = 0; i < MR_HANDLE_CHUNKS; i++) {
        mr_handle_entry *chunk = atomic_load(&table->chunks[i]);
        for (int j = 0; chunk && j < MR_HANDLE_CHUNK; j++) {
            chunk[j].loops = 0;
            chunk[j].holders = 0;
            chunk[j].closing = false; /* the parent continues its close; in the child the descriptor is still open */
            unlock(&chunk[j]);
        }
    }
}

void mr_handle_table_free(mr_handle_table *table)
{
    for (int i = 0; i < MR_HANDLE_CHUNKS; i++)
        free(atomic_load(&table->chunks[i]));
}
