/* http_file.c - opens and reads files to be served, by handles. */
#include "http_file.h"

#include <errno.h>
#include <windows.h>

static HANDLE handle_of(int descriptor)
{
    return (HANDLE)(intptr_t)descriptor;
}

/* The error of the last call, negative. */
static int last_error(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_PATHNAME:
        return -ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return -EACCES;
    case ERROR_FILENAME_EXCED_RANGE:
        return -ENAMETOOLONG;
    case ERROR_TOO_MANY_OPEN_FILES:
        return -EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return -ENOMEM;
    case ERROR_INVALID_HANDLE:
        return -EBADF;
    default:
        return -EIO;
    }
}

/* A FILETIME counts tenths of a microsecond from 1601 on. */
static int64_t seconds_since_1970(FILETIME time)
{
    const int64_t per_second = 10000000, from_1601_to_1970 = 11644473600;
    int64_t ticks = (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
    return ticks / per_second - from_1601_to_1970;
}

static int examine(HANDLE handle, http_file *file)
{
    BY_HANDLE_FILE_INFORMATION information;
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return -EACCES;
    if (!GetFileInformationByHandle(handle, &information))
        return last_error();
    if (information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        return -EISDIR;
    file->descriptor = (int32_t)(intptr_t)handle;
    file->size = (int64_t)((uint64_t)information.nFileSizeHigh << 32 | information.nFileSizeLow);
    file->modified_seconds = seconds_since_1970(information.ftLastWriteTime);
    return 0;
}

int http_file_examine(int descriptor, http_file *file)
{
    return examine(handle_of(descriptor), file);
}

int http_file_open(const void *path, http_file *file)
{
    /* Others may do with the file what they like meanwhile, as on POSIX. With FILE_FLAG_BACKUP_SEMANTICS a directory is
     * opened, too, and so told apart from what is forbidden. */
    HANDLE handle = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return last_error();
    int error = examine(handle, file);
    if (error < 0)
        CloseHandle(handle);
    return error;
}

int http_file_open_at_once(const void *path, http_file *file)
{
    return http_file_open(path, file);
}

int64_t http_file_read(int descriptor, uint8_t *destination, size_t length, int64_t offset)
{
    const size_t part = 1 << 30; /* of what a DWORD holds */
    size_t done = 0;
    while (done < length) {
        uint64_t at = (uint64_t)offset + done;
        OVERLAPPED position = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        DWORD count = 0;
        size_t left = length - done;
        if (!ReadFile(handle_of(descriptor), destination + done, (DWORD)(left < part ? left : part), &count,
                      &position) &&
            GetLastError() != ERROR_HANDLE_EOF)
            return last_error();
        if (count == 0)
            break;
        done += count;
    }
    return (int64_t)done;
}

int64_t http_file_read_at_once(int descriptor, uint8_t *destination, size_t length, int64_t offset)
{
    return http_file_read(descriptor, destination, length, offset);
}

void http_file_close(int descriptor)
{
    CloseHandle(handle_of(descriptor));
}
