/*
 * entry_windows.h - finds files and directories and holds them. Must not know: HTTP.
 *
 * While an entry is open, Windows refuses to rename or remove it or a directory above it. So the path that it had when
 * it was found stays valid for that time.
 */
#ifndef ENTRY_WINDOWS_H
#define ENTRY_WINDOWS_H

#include <stdint.h>
#include <wchar.h>

#define ENTRY_PATH_MAX 32768 /* Windows' limit in characters, with the final 0 */

/* The outcome of a look-up. */
enum { ENTRY_FOUND, ENTRY_MISSING, ENTRY_FORBIDDEN, ENTRY_NO_HANDLES, ENTRY_FAULTY };

/* The kind of an entry. */
enum { ENTRY_FILE, ENTRY_DIRECTORY, ENTRY_OTHER };

typedef struct entry {
    int64_t handle;
    int64_t size;            /* bytes */
    int64_t modified_100_ns; /* tenths of a microsecond since 1970 */
    uint64_t number;         /* unique on its volume */
    int32_t kind;
    uint32_t error; /* with ENTRY_FAULTY: Windows' error number */
} entry;

/* Opens the object at a path for reading. Must be closed if the outcome is ENTRY_FOUND. Windows takes a path that
 * begins with \\?\ literally: no name in it means a device, and no dot or space at the end of a name is dropped. */
int32_t entry_open(const wchar_t *path, entry *found);
void entry_close(int64_t handle);

/* The real path with every link resolved, beginning with \\?\. Returns its length in characters, or 0 and sets
   entry->error. */
uint32_t entry_path(entry *found, wchar_t path[ENTRY_PATH_MAX]);

#endif
