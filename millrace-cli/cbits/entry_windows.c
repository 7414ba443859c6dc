/* entry_windows.c - see entry_windows.h. */
#include "entry_windows.h"

#include <windows.h>

static int32_t problem(uint32_t error)
{
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
    case ERROR_DIRECTORY: /* a name below a file */
    case ERROR_FILENAME_EXCED_RANGE:
    case ERROR_CANT_RESOLVE_FILENAME: /* links in a circle */
    case ERROR_CANT_ACCESS_FILE:
        return ENTRY_MISSING;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return ENTRY_FORBIDDEN;
    case ERROR_TOO_MANY_OPEN_FILES:
    case ERROR_NO_SYSTEM_RESOURCES:
        return ENTRY_NO_HANDLES;
    default:
        return ENTRY_FAULTY;
    }
}

static int64_t wide(DWORD high, DWORD low)
{
    return (int64_t)((uint64_t)high << 32 | low);
}

static uint32_t examine(HANDLE handle, entry *found)
{
    const int64_t from_1601_to_1970_100_ns = 116444736000000000;
    BY_HANDLE_FILE_INFORMATION information;
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        found->kind = ENTRY_OTHER;
        return 0;
    }
    if (!GetFileInformationByHandle(handle, &information))
        return GetLastError();
    found->kind = information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? ENTRY_DIRECTORY : ENTRY_FILE;
    found->size = wide(information.nFileSizeHigh, information.nFileSizeLow);
    found->modified_100_ns =
        wide(information.ftLastWriteTime.dwHighDateTime, information.ftLastWriteTime.dwLowDateTime) -
        from_1601_to_1970_100_ns;
    found->number = (uint64_t)wide(information.nFileIndexHigh, information.nFileIndexLow);
    return 0;
}

int32_t entry_open(const wchar_t *path, entry *found)
{
    *found = (entry){0};
    /* Not FILE_SHARE_DELETE: that is what keeps it where it is. FILE_FLAG_BACKUP_SEMANTICS opens directories, too. */
    HANDLE handle = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        found->error = GetLastError();
        return problem(found->error);
    }
    found->handle = (int64_t)(intptr_t)handle;
    found->error = examine(handle, found);
    if (found->error == 0)
        return ENTRY_FOUND;
    CloseHandle(handle);
    return ENTRY_FAULTY;
}

void entry_close(int64_t handle)
{
    CloseHandle((HANDLE)(intptr_t)handle);
}

uint32_t entry_path(entry *found, wchar_t path[ENTRY_PATH_MAX])
{
    DWORD length =
        GetFinalPathNameByHandleW((HANDLE)(intptr_t)found->handle, path, ENTRY_PATH_MAX, FILE_NAME_NORMALIZED);
    if (length == 0 || length >= ENTRY_PATH_MAX) {
        found->error = length == 0 ? GetLastError() : ERROR_FILENAME_EXCED_RANGE;
        return 0;
    }
    return length;
}
