/*
 * entry_windows.h - finds files and directories and holds them. Must not know: HTTP.
 *
 * As long as an entry is held, Windows renames and removes neither it nor a directory above it: the path that it had when
 * it was found is good for all that time.
 */
#ifndef ENTRY_WINDOWS_H
#define ENTRY_WINDOWS_H

#include <stdint.h>
#include <wchar.h>

#define ENTRY_PATH_MAX 32768 /* characters, the final 0 included: what Windows takes */

/* How looking for it went. */
enum { ENTRY_FOUND, ENTRY_MISSING, ENTRY_FORBIDDEN, ENTRY_NO_HANDLES, ENTRY_FAULTY };

/* What was found. */
enum { ENTRY_FILE, ENTRY_DIRECTORY, ENTRY_OTHER };

typedef struct entry {
    int64_t handle;
    int64_t size;            /* bytes */
    int64_t modified_100_ns; /* tenths of a microsecond since 1970 */
    uint64_t number;         /* its own on the volume */
    int32_t kind;
    uint32_t error; /* of ENTRY_FAULTY: Windows' number */
} entry;

/* Finds what is at a path and opens it for reading; to be closed if it is ENTRY_FOUND. A path that begins with \\?\ is
 * taken as it is: no name in it means a device, and no dot or space at an end is dropped. */
int32_t entry_open(const wchar_t *path, entry *found);
void entry_close(int64_t handle);

/* Where it really is, every link resolved, beginning with \\?\; the length in characters, or 0 and entry->error. */
uint32_t entry_path(entry *found, wchar_t path[ENTRY_PATH_MAX]);

#endif
