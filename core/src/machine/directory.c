/*
 * directory.c: the names of files on a simulated machine. Must not know: backends.
 *
 * An entry has the file that a name means now, the one that it means on the disk, and those that it has meant since the
 * directory was synced. Paths begin at the root, with or without a slash. There are no symbolic links.
 */
#include "directory.h"

#include "inode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGED_NAMES_MOST = 1024 };

/* ------------------------------------------------------------------------------------------------------ paths --- */

static mr_entry *find_entry(const mr_inode *directory, const char *name)
{
    mr_entry *entry = directory->entries;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

/* Copies the next name of a path and moves the path past it. Returns its length; 0 if there is none. */
static int next_name(const char **path, char name[MR_NAME_BYTES])
{
    *path += strspn(*path, "/");
    size_t length = strcspn(*path, "/");
    if (length >= MR_NAME_BYTES)
        return -ENAMETOOLONG;
    memcpy(name, *path, length);
    name[length] = 0;
    *path += length;
    return (int)length;
}

static mr_inode *child(mr_inode *directory, const char *name)
{
    if (strcmp(name, ".") == 0)
        return directory;
    if (strcmp(name, "..") == 0)
        return directory->parent ? directory->parent : directory;
    const mr_entry *entry = find_entry(directory, name);
    return entry ? entry->now : NULL;
}

static mr_inode *root_of(mr_machine *machine)
{
    if (!machine->root) {
        machine->root = mr_inode_new(machine, true, 0755);
        mr_inode_hold(machine->root);
        if (machine->root)
            mr_inode_use(machine, machine->root, 1, 0);
    }
    return machine->root;
}

int mr_directory_find(mr_machine *machine, const char *path, mr_location *location)
{
    char next[MR_NAME_BYTES];
    mr_inode *directory = root_of(machine);
    if (!directory)
        return -ENOMEM;
    if (!*path)
        return -ENOENT;
    *location = (mr_location){.directory = NULL};
    int length = next_name(&path, next);
    while (length > 0) {
        memcpy(location->name, next, sizeof next);
        location->directory = directory;
        length = next_name(&path, next);
        if (length <= 0)
            break;
        directory = child(directory, location->name);
        if (!directory)
            return -ENOENT;
        if (!directory->is_directory)
            return -ENOTDIR;
    }
    return length;
}

mr_inode *mr_directory_at(mr_machine *machine, const mr_location *location)
{
    return location->directory ? child(location->directory, location->name) : root_of(machine);
}

mr_inode *mr_directory_look_up(mr_machine *machine, const char *path, int *error)
{
    mr_location location;
    *error = mr_directory_find(machine, path, &location);
    mr_inode *found = *error ? NULL : mr_directory_at(machine, &location);
    if (!*error && !found)
        *error = -ENOENT;
    return found;
}

/* --------------------------------------------------------------------------------------------------- bindings --- */

static void forget_bindings(mr_machine *machine, mr_entry *entry)
{
    while (entry->since) {
        mr_binding *binding = entry->since;
        entry->since = binding->next;
        mr_inode_release(machine, binding->inode);
        free(binding);
    }
    entry->last_since = NULL;
}

static void free_entry(mr_machine *machine, mr_entry *entry)
{
    forget_bindings(machine, entry);
    if (entry->now)
        mr_inode_use(machine, entry->now, -1, 0);
    mr_inode_release(machine, entry->now);
    mr_inode_release(machine, entry->stored);
    free(entry);
}

void mr_directory_free_entries(mr_machine *machine, mr_inode *directory)
{
    while (directory->entries) {
        mr_entry *entry = directory->entries;
        directory->entries = entry->next;
        free_entry(machine, entry);
    }
}

static mr_entry *find_or_create(mr_inode *directory, const char *name)
{
    mr_entry *entry = find_entry(directory, name);
    if (entry)
        return entry;
    size_t bytes = strlen(name) + 1;
    entry = calloc(1, sizeof *entry + bytes);
    if (!entry)
        return NULL;
    memcpy(entry->name, name, bytes);
    entry->next = directory->entries;
    directory->entries = entry;
    return entry;
}

int mr_directory_set(mr_machine *machine, const mr_location *location, mr_inode *inode)
{
    mr_inode *directory = location->directory;
    mr_binding *binding = calloc(1, sizeof *binding);
    mr_entry *entry = binding ? find_or_create(directory, location->name) : NULL;
    if (!entry) {
        free(binding);
        return -ENOMEM;
    }
    binding->inode = inode;
    mr_inode_hold(inode); /* once for the binding, once for `now` */
    mr_inode_hold(inode);
    if (inode) {
        mr_inode_use(machine, inode, 1, 0);
        inode->parent = directory;
    }
    mr_inode *before = entry->now;
    entry->now = inode;
    if (before)
        mr_inode_use(machine, before, -1, 0);
    mr_inode_release(machine, before);
    if (entry->last_since)
        entry->last_since->next = binding;
    else
        entry->since = binding;
    entry->last_since = binding;
    directory->modified_ns = mr_machine_now_ns(machine);
    if (++directory->changed_names > CHANGED_NAMES_MOST)
        mr_directory_sync(machine, directory); /* systems do so by themselves, too */
    return 0;
}

void mr_directory_sync(mr_machine *machine, mr_inode *directory)
{
    mr_entry **link = &directory->entries;
    while (*link) {
        mr_entry *entry = *link;
        mr_inode *before = entry->stored;
        mr_inode_hold(entry->now);
        entry->stored = entry->now;
        mr_inode_release(machine, before);
        forget_bindings(machine, entry);
        if (entry->now) {
            link = &entry->next;
        } else {
            *link = entry->next;
            free_entry(machine, entry);
        }
    }
    directory->changed_names = 0;
    directory->stored_permissions = directory->permissions;
}
