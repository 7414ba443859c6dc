/*
 * crash.c: computes the disk of a simulated machine after a power failure. Must not know: backends.
 *
 * POSIX promises only what was synced: a file's bytes by fsync of the file, a name by fsync of its directory. Of
 * everything else any part may be on the disk, in any order: any sectors of a write, any file that a name has meant.
 * Some crashes lose all of it and some keep all of it, because programs fail on those too.
 */
#include "machine.h"
#include "directory.h"
#include "disk.h"
#include "inode.h"

#include <stdlib.h>

static bool keeps_all(mr_machine *machine)
{
    (void)machine;
    return true;
}

static bool keeps_none(mr_machine *machine)
{
    (void)machine;
    return false;
}

static bool keeps_half(mr_machine *machine)
{
    return mr_machine_draw(machine, 2) == 0;
}

static bool keeps_most(mr_machine *machine)
{
    return mr_machine_draw(machine, 16) != 0;
}

typedef bool keeping(mr_machine *machine);

/* Chooses the file that a name means after the crash: the one on the disk, or a later one if it is kept. */
static mr_inode *binding_after(mr_machine *machine, const mr_entry *entry, keeping *keeps)
{
    mr_inode *found = entry->stored;
    for (const mr_binding *binding = entry->since; binding; binding = binding->next)
        if (keeps(machine))
            found = binding->inode;
    return found;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the directories are; each is settled once. */
static void settle(mr_machine *machine, mr_inode *inode, keeping *keeps);

/* A directory can have only one name. If a rename has left it two, the second one is lost. */
static void settle_names(mr_machine *machine, mr_inode *directory, keeping *keeps)
{
    mr_entry *before = directory->entries;
    directory->entries = NULL;
    for (mr_entry *entry = before; entry; entry = entry->next) {
        mr_inode *found = binding_after(machine, entry, keeps);
        bool is_second = found && found->is_directory && found->crash == machine->crashes;
        mr_location location = {.directory = directory};
        if (!found || is_second)
            continue;
        settle(machine, found, keeps);
        for (size_t i = 0; entry->name[i]; i++)
            location.name[i] = entry->name[i];
        mr_directory_set(machine, &location, found);
    }
    mr_inode unused = {.entries = before};
    mr_directory_free_entries(machine, &unused);
    mr_directory_sync(machine, directory);
}

static void settle(mr_machine *machine, mr_inode *inode, keeping *keeps)
{
    if (inode->crash == machine->crashes)
        return;
    inode->crash = machine->crashes;
    machine->state.disk_bytes -= inode->names + inode->opens > 0 ? inode->now.size : 0;
    mr_inode_crash(machine, inode, keeps);
    machine->state.disk_bytes += inode->names + inode->opens > 0 ? inode->now.size : 0;
    if (inode->is_directory)
        settle_names(machine, inode, keeps);
}
/* NOLINTEND(misc-no-recursion) */

/* Files that are open stay open, and every call on them fails. */
static void abandon_open_files(mr_machine *machine)
{
    for (int i = 0; i < machine->file_count; i++) {
        mr_disk_file *file = (mr_disk_file *)machine->files[i];
        if (file && file->file.kind == MR_FILE_DISK)
            mr_disk_abandon(machine, file);
    }
}

void mr_machine_crash(mr_machine *machine)
{
    static keeping *const kinds[] = {keeps_none, keeps_all, keeps_half, keeps_half, keeps_most};
    mr_machine_lock(machine);
    machine->crashes++;
    MR_TRACE(machine, "crash %llu", (unsigned long long)machine->crashes);
    abandon_open_files(machine);
    if (machine->root)
        settle(machine, machine->root, kinds[mr_machine_draw(machine, sizeof kinds / sizeof *kinds)]);
    machine->has_no_power = false;
    machine->calls_until_failure = 0;
    mr_machine_unlock(machine);
}

void mr_machine_fail_power_after(mr_machine *machine, uint64_t calls)
{
    mr_machine_lock(machine);
    machine->calls_until_failure = calls;
    mr_machine_unlock(machine);
}

bool mr_machine_has_power(mr_machine *machine)
{
    mr_machine_lock(machine);
    bool has_power = !machine->has_no_power;
    mr_machine_unlock(machine);
    return has_power;
}
