/*
 * files.c: see files.h. Handles that completion ports take (FILE_FLAG_OVERLAPPED); 32 bits of one matter, as of a
 * socket.
 */
#include "files.h"

#include "millrace.h"

#include <errno.h>

static HANDLE handle_of(int descriptor)
{
    return (HANDLE)(intptr_t)descriptor;
}

static int last_error(void)
{
    return -mr_error_of_winsock((int)GetLastError());
}

static int failed(int error)
{
    errno = error;
    return -1;
}

/* Truncates the file. CREATE_ALWAYS would, too, but it refuses hidden files and replaces attributes (documentation of
 * CreateFileW). */
static BOOL empty(HANDLE handle)
{
    FILE_END_OF_FILE_INFO at_the_beginning = {0};
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &at_the_beginning, sizeof at_the_beginning);
}

/* Checks that the handle is that of a file: 0, or an errno. The core would take a device, such as NUL, for a socket. */
static int prepare(HANDLE handle, int mode)
{
    if (GetFileType(handle) != FILE_TYPE_DISK)
        return EACCES;
    return mode == MRH_FOR_WRITING && !empty(handle) ? last_error() : 0;
}

int mrh_open(const void *path, int mode)
{
    DWORD access = mode == MRH_FOR_READING ? GENERIC_READ : GENERIC_READ | GENERIC_WRITE;
    DWORD creation = mode == MRH_FOR_READING ? OPEN_EXISTING : OPEN_ALWAYS;
    /* Other processes may open, change or delete the file meanwhile, as on POSIX. */
    HANDLE handle = CreateFileW(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, creation,
                                FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OVERLAPPED, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return failed(last_error());
    int error = prepare(handle, mode);
    if (error) {
        CloseHandle(handle);
        return failed(error);
    }
    return (int)(intptr_t)handle;
}

int64_t mrh_file_size(int descriptor)
{
    LARGE_INTEGER size;
    return GetFileSizeEx(handle_of(descriptor), &size) ? size.QuadPart : failed(last_error());
}

int mrh_remove(const void *path)
{
    return DeleteFileW(path) ? 0 : failed(last_error());
}

int64_t mrh_read_cached(mr_handle handle, void *buffer, uint64_t bytes, uint64_t offset)
{
    (void)handle, (void)buffer, (void)bytes, (void)offset;
    return -EAGAIN;
}

/* Overlapped reads and writes do not wait. */
int mrh_leaves_files_to_helpers(void)
{
    return 0;
}
