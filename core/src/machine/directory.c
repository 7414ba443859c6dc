/*
 * directory.c: the names of files on a simulated machine. Must not know: backends.
 *
 * A name has what it means now, what it means on the disk, and all that it has meant since the directory was synced.
 * Paths begin at the root, with or without a slash. There are no symbolic links.
 */
#include "machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGED_NAMES_MOST = 1024 };

/* ------------------------------------------------------------------------------------------------------ paths --- */

static mr_entry *find_entry(const mr_contents *directory, const char *name)
{
    mr_entry *entry = directory->entries;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

/* The next name of a path, which is moved behind it. 0: there is none. */
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

static mr_contents *child(mr_contents *directory, const char *name)
{
    if (strcmp(name, ".") == 0)
        return directory;
    if (strcmp(name, "..") == 0)
        return directory->parent ? directory->parent : directory;
    const mr_entry *entry = find_entry(directory, name);
    return entry ? entry->now : NULL;
}

static mr_contents *root_of(mr_machine *machine)
{
    if (!machine->root) {
        machine->root = mr_contents_new(machine, true, 0755);
        mr_contents_hold(machine->root);
        if (machine->root)
            mr_contents_use(machine, machine->root, 1, 0);
    }
    return machine->root;
}

int mr_directory_find(mr_machine *machine, const char *path, mr_place *place)
{
    char next[MR_NAME_BYTES];
    mr_contents *directory = root_of(machine);
    if (!directory)
        return -ENOMEM;
    if (!*path)
        return -ENOENT;
    *place = (mr_place){.directory = NULL};
    int length = next_name(&path, next);
    while (length > 0) {
        memcpy(place->name, next, sizeof next);
        place->directory = directory;
        length = next_name(&path, next);
        if (length <= 0)
            break;
        directory = child(directory, place->name);
        if (!directory)
            return -ENOENT;
        if (!directory->is_directory)
            return -ENOTDIR;
    }
    return length;
}

mr_contents *mr_directory_at(mr_machine *machine, const mr_place *place)
{
    return place->directory ? child(place->directory, place->name) : root_of(machine);
}

mr_contents *mr_directory_look_up(mr_machine *machine, const char *path, int *error)
{
    mr_place place;
    *error = mr_directory_find(machine, path, &place);
    mr_contents *found = *error ? NULL : mr_directory_at(machine, &place);
    if (!*error && !found)
        *error = -ENOENT;
    return found;
}

/* --------------------------------------------------------------------------------------------------- meanings --- */

static void forget_meanings(mr_machine *machine, mr_entry *entry)
{
    while (entry->since) {
        mr_meaning *meaning = entry->since;
        entry->since = meaning->next;
        mr_contents_release(machine, meaning->contents);
        free(meaning);
    }
    entry->last_since = NULL;
}

static void free_entry(mr_machine *machine, mr_entry *entry)
{
    forget_meanings(machine, entry);
    if (entry->now)
        mr_contents_use(machine, entry->now, -1, 0);
    mr_contents_release(machine, entry->now);
    mr_contents_release(machine, entry->stored);
    free(entry);
}

void mr_directory_free_entries(mr_machine *machine, mr_contents *directory)
{
    while (directory->entries) {
        mr_entry *entry = directory->entries;
        directory->entries = entry->next;
        free_entry(machine, entry);
    }
}

static mr_entry *find_or_create(mr_contents *directory, const char *name)
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

int mr_directory_set(mr_machine *machine, const mr_place *place, mr_contents *contents)
{
    mr_contents *directory = place->directory;
    mr_meaning *meaning = calloc(1, sizeof *meaning);
    mr_entry *entry = meaning ? find_or_create(directory, place->name) : NULL;
    if (!entry) {
        free(meaning);
        return -ENOMEM;
    }
    meaning->contents = contents;
    mr_contents_hold(contents); /* once for the meaning, once for `now` */
    mr_contents_hold(contents);
    if (contents) {
        mr_contents_use(machine, contents, 1, 0);
        contents->parent = directory;
    }
    mr_contents *before = entry->now;
    entry->now = contents;
    if (before)
        mr_contents_use(machine, before, -1, 0);
    mr_contents_release(machine, before);
    if (entry->last_since)
        entry->last_since->next = meaning;
    else
        entry->since = meaning;
    entry->last_since = meaning;
    directory->modified_ns = mr_machine_now_ns(machine);
    if (++directory->changed_names > CHANGED_NAMES_MOST)
        mr_directory_sync(machine, directory); /* systems do it by themselves as well */
    return 0;
}

void mr_directory_sync(mr_machine *machine, mr_contents *directory)
{
    mr_entry **place = &directory->entries;
    while (*place) {
        mr_entry *entry = *place;
        mr_contents *before = entry->stored;
        mr_contents_hold(entry->now);
        entry->stored = entry->now;
        mr_contents_release(machine, before);
        forget_meanings(machine, entry);
        if (entry->now) {
            place = &entry->next;
        } else {
            *place = entry->next;
            free_entry(machine, entry);
        }
    }
    directory->changed_names = 0;
    directory->stored_permissions = directory->permissions;
}
