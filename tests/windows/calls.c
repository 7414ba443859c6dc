/*
 * calls.c: tests the C files that the Haskell packages have for Windows: sockets, information about connections, files
 * and the core's operations on them, and random numbers. scripts/lint/windows links it with them and runs it under
 * Wine. It prints each failed check and exits with 1 if there are any.
 */
#include "entry_windows.h"
#include "files.h"
#include "http_file.h"
#include "http_random.h"
#include "http_socket.h"
#include "system.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                              \
    do {                                                              \
        if (!(condition)) {                                           \
            printf("calls.c:%d: failed: %s\n", __LINE__, #condition); \
            failures++;                                               \
        }                                                             \
    } while (0)

/* Repeats a question until its answer is yes, for twenty seconds at most. */
static bool becomes(int (*question)(int), int descriptor)
{
    for (int i = 0; i < 2000; i++) {
        if (question(descriptor))
            return true;
        Sleep(10);
    }
    return false;
}

static int has_error(int result, int expected)
{
    return result == -1 && errno == expected;
}

static void sockets_are_set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = mrh_socket(AF_INET, SOCK_STREAM, 0), on = 1, pair[2];
    CHECK(listener >= 0);
    CHECK(mrh_bind(listener, (struct sockaddr *)&address, size) == 0);
    CHECK(mrh_listen(listener, 16) == 0);
    CHECK(mrh_getsockname(listener, (struct sockaddr *)&address, &size) == 0 && address.sin_port != 0);
    CHECK(http_socket_pending(listener) == 0);

    int client = mrh_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect((SOCKET)client, (struct sockaddr *)&address, size) == -1 && WSAGetLastError() == WSAEWOULDBLOCK);
    CHECK(becomes(http_socket_pending, listener));
    CHECK(mrh_setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    CHECK(has_error(mrh_setsockopt(client, -1, -1, &on, sizeof on), EINVAL));

    int copy = http_socket_duplicate(listener);
    CHECK(copy >= 0 && copy != listener);
    CHECK(mrh_close(listener) == 0);
    CHECK(has_error(mrh_close(listener), EBADF));
    int server = (int)accept((SOCKET)copy, NULL, NULL);
    CHECK(server >= 0);
    CHECK(mrh_close(client) == 0 && mrh_close(server) == 0 && mrh_close(copy) == 0);
    CHECK(has_error(mrh_socketpair(AF_UNIX, SOCK_STREAM, 0, pair), EOPNOTSUPP));
}

static void files_are_read(void)
{
    http_file file;
    uint8_t bytes[8] = {0};
    CHECK(http_file_open(L"file", &file) == 0);
    CHECK(file.size == 5 && file.modified_seconds > 1600000000);
    CHECK(http_file_read(file.descriptor, bytes, sizeof bytes, 1) == 4 && memcmp(bytes, "ello", 4) == 0);
    CHECK(http_file_read(file.descriptor, bytes, sizeof bytes, 5) == 0);
    http_file_close(file.descriptor);
    CHECK(http_file_open(L"directory", &file) == -EISDIR);
    CHECK(http_file_open(L"nothing", &file) == -ENOENT);
    CHECK(http_file_open(L"NUL", &file) == -EACCES);
}

static void random_bytes_differ(void)
{
    uint8_t bytes[2][7] = {{0}};
    CHECK(http_random_fill(bytes[0], 7) == 0 && http_random_fill(bytes[1], 7) == 0);
    CHECK(memcmp(bytes[0], bytes[1], 7) != 0);
}

/* A file opened by mrh_open, and a loop of the core for operations on it. */
typedef struct opened {
    mr_group *group;
    mr_loop *loop;
    mr_handle handle;
    int descriptor;
} opened;

static opened open_for(const wchar_t *path, int mode)
{
    opened f = {.descriptor = mrh_open(path, mode)};
    CHECK(f.descriptor >= 0);
    CHECK(mr_group_create(MR_BACKEND_IOCP, &f.group) == 0 && mr_loop_create(f.group, &f.loop) == 0);
    CHECK(mr_group_adopt(f.group, f.descriptor, &f.handle) == 0);
    return f;
}

static int64_t perform(const opened *f, mr_kind kind, void *buffer, size_t size, uint64_t offset)
{
    mr_request request = {.kind = kind, .handle = f->handle, .buffer = buffer, .length = size, .offset = offset};
    mr_completion completion;
    if (mr_loop_submit(f->loop, &request, &completion) == MR_DONE)
        return completion.result;
    while (mr_loop_poll(f->loop, &completion, 1) == 0)
        if (mr_loop_prepare_wait(f->loop))
            mr_loop_wait(f->loop);
    mr_loop_release(f->loop, completion.token);
    return completion.result;
}

static void close_opened(opened *f)
{
    CHECK(perform(f, MR_CLOSE, NULL, 0, 0) == 0);
    CHECK(GetFileType((HANDLE)(intptr_t)f->descriptor) == FILE_TYPE_UNKNOWN);
    mr_loop_destroy(f->loop);
    mr_group_destroy(f->group);
}

/* Whether the current directory contains exactly this name. */
static bool is_listed(const wchar_t *name)
{
    WIN32_FIND_DATAW found;
    HANDLE search = FindFirstFileW(name, &found);
    return search != INVALID_HANDLE_VALUE && FindClose(search) && wcscmp(found.cFileName, name) == 0;
}

/* Overlapped operations do not move the file's position. */
static int64_t position_of(const opened *f)
{
    LARGE_INTEGER position = {.QuadPart = -1};
    SetFilePointerEx((HANDLE)(intptr_t)f->descriptor, (LARGE_INTEGER){0}, &position, FILE_CURRENT);
    return position.QuadPart;
}

static void wrong_calls_fail(void)
{
    CHECK(has_error(mrh_open(L"nothing", MRH_FOR_READING), ENOENT));
    CHECK(has_error(mrh_open(L"nowhere\\file", MRH_FOR_UPDATING), ENOENT));
    CHECK(has_error(mrh_open(L"a?b", MRH_FOR_WRITING), ENOENT));
    CHECK(has_error(mrh_open(L"directory", MRH_FOR_READING), EACCES));
    CHECK(has_error(mrh_open(L"NUL", MRH_FOR_UPDATING), EACCES));
    CHECK(has_error(mrh_remove(L"nothing"), ENOENT));
    CHECK(has_error(mrh_remove(L"directory"), EACCES));
    CHECK(mrh_file_size(mrh_open(L"nothing", MRH_FOR_READING)) == -1 && errno == EBADF);

    HANDLE alone = CreateFileW(L"file", GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
    CHECK(has_error(mrh_open(L"file", MRH_FOR_READING), EACCES));
    CHECK(CloseHandle(alone));
}

static void files_are_written(void)
{
    const wchar_t *name = L"gr\u00fc\u00dfe \u65e5\u672c\u8a9e \U0001f600";
    char bytes[16] = {0};
    DWORD flags = 0;
    opened f = open_for(name, MRH_FOR_UPDATING); /* creates it */
    CHECK(is_listed(name));
    CHECK(GetHandleInformation((HANDLE)(intptr_t)f.descriptor, &flags) && !(flags & HANDLE_FLAG_INHERIT));
    CHECK(mrh_file_size(f.descriptor) == 0);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 0) == 0);
    CHECK(perform(&f, MR_WRITE_FILE, "one ", 4, 0) == 4);
    CHECK(perform(&f, MR_WRITE_FILE, "line more", 9, (uint64_t)mrh_file_size(f.descriptor)) == 9);
    CHECK(perform(&f, MR_SYNC_FILE, NULL, 0, 0) == 0);
    CHECK(mrh_file_size(f.descriptor) == 13);
    CHECK(position_of(&f) == 0);
    close_opened(&f);

    f = open_for(name, MRH_FOR_READING);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 0) == 13 && memcmp(bytes, "one line more", 13) == 0);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 9) == 4 && memcmp(bytes, "more", 4) == 0);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 13) == 0);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 5000) == 0);
    CHECK(perform(&f, MR_WRITE_FILE, "x", 1, 0) == -EACCES);
    close_opened(&f);

    f = open_for(name, MRH_FOR_UPDATING); /* keeps the content */
    CHECK(mrh_file_size(f.descriptor) == 13);
    close_opened(&f);
    f = open_for(name, MRH_FOR_WRITING); /* removes the content */
    CHECK(mrh_file_size(f.descriptor) == 0);
    CHECK(perform(&f, MR_WRITE_FILE, "new", 3, 0) == 3);
    CHECK(mrh_remove(name) == 0);
    CHECK(perform(&f, MR_READ_FILE, bytes, sizeof bytes, 0) == 3 && memcmp(bytes, "new", 3) == 0);
    close_opened(&f);
    CHECK(!is_listed(name));

    int unused = mrh_open(name, MRH_FOR_WRITING); /* creates it, as MRH_FOR_UPDATING does */
    CHECK(mrh_close(unused) == 0 && is_listed(name));
    CHECK(has_error(mrh_close(unused), EBADF));
}

static void entries_are_held(void)
{
    static wchar_t path[ENTRY_PATH_MAX];
    entry found;
    CHECK(entry_open(L"nothing", &found) == ENTRY_MISSING);
    CHECK(entry_open(L"file\\below", &found) == ENTRY_MISSING);
    CHECK(entry_open(L"directory", &found) == ENTRY_FOUND && found.kind == ENTRY_DIRECTORY);
    entry_close(found.handle);
    CHECK(entry_open(L"file", &found) == ENTRY_FOUND && found.kind == ENTRY_FILE);
    CHECK(found.size == 5 && found.modified_100_ns > 16000000000000000 && found.number != 0);
    uint32_t length = entry_path(&found, path);
    CHECK(length > 5 && wcsncmp(path, L"\\\\?\\", 4) == 0 && wcscmp(path + length - 5, L"\\file") == 0);
    http_file file;
    CHECK(http_file_open(path, &file) == 0 && file.size == 5);
    http_file_close(file.descriptor);
    CHECK(!MoveFileW(L"file", L"elsewhere"));
    entry_close(found.handle);
    CHECK(MoveFileW(L"file", L"elsewhere"));
}

int main(void)
{
    FILE *file = fopen("file", "wb");
    if (!file || fputs("hello", file) < 0 || fclose(file) != 0 || !CreateDirectoryW(L"directory", NULL))
        return 1;
    sockets_are_set_up();
    files_are_read();
    random_bytes_differ();
    wrong_calls_fail();
    files_are_written();
    entries_are_held();
    return failures != 0;
}
