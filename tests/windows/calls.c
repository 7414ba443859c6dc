/*
 * calls.c: runs the C files that the Haskell packages have for Windows: sockets, what is known of connections, files.
 * scripts/check-windows links it with them and runs it under Wine. Says what is not as it should be; 0 if nothing is.
 */
#include "entry_windows.h"
#include "http_file.h"
#include "http_socket.h"
#include "system.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("calls.c:%d: not so: %s\n", __LINE__, #condition);                                                  \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* Asks again, for twenty seconds at most, until the answer is yes. */
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
    entries_are_held();
    return failures != 0;
}
