/* windows.c: system.h on Windows. Pairs are TCP connections; a file's number is its handle. */
#include "../harness.h"
#include "../system.h"

#include <mswsock.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

/* ------------------------------------------------------------------------------------------------ connections --- */

static int64_t result_or_error(int64_t result)
{
    if (result >= 0)
        return result;
    switch (WSAGetLastError()) {
    case WSAEWOULDBLOCK:
        return -EAGAIN;
    case WSAECONNRESET:
    case WSAECONNABORTED:
        return -ECONNRESET;
    default:
        return -EIO;
    }
}

#define MUST_SUCCEED(call)                                         \
    do {                                                           \
        if (call)                                                  \
            FAIL("%s failed: error %d", #call, WSAGetLastError()); \
    } while (0)

static SOCKET socket_of(int number)
{
    return (SOCKET)(unsigned)number;
}

static int fit(SOCKET number)
{
    CHECK(number != INVALID_SOCKET);
    MUST_SUCCEED(ioctlsocket(number, FIONBIO, &(u_long){1}));
    CHECK(SetHandleInformation((HANDLE)number, HANDLE_FLAG_INHERIT, 0));
    return (int)number;
}

int tcp_socket(void)
{
    WSADATA data;
    MUST_SUCCEED(WSAStartup(MAKEWORD(2, 2), &data));
    return fit(socket(AF_INET, SOCK_STREAM, 0));
}

int tcp_listener(int backlog, struct sockaddr_in *address)
{
    int listener = tcp_socket();
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST_SUCCEED(bind(socket_of(listener), (struct sockaddr *)address, sizeof *address));
    MUST_SUCCEED(listen(socket_of(listener), backlog));
    *address = own_address(listener);
    return listener;
}

void tcp_pair(int descriptors[2])
{
    struct sockaddr_in address;
    int listener = tcp_listener(1, &address);
    descriptors[1] = connect_to(&address);
    descriptors[0] = accept_one(listener);
    hang_up(listener);
}

void local_pair(int descriptors[2])
{
    tcp_pair(descriptors);
}

/* Windows uses the lowest free number first (though it does not promise that). So this occupies the lower ones. */
void local_pair_at(int number, int descriptors[2])
{
    enum { FILLERS = 64 };
    struct sockaddr_in address;
    int fillers[FILLERS];
    for (int i = 0; i < FILLERS; i++)
        fillers[i] = tcp_socket();
    int listener = tcp_listener(1, &address);
    for (int i = 0; i < FILLERS; i++)
        if (fillers[i] == number)
            hang_up(number);
    descriptors[0] = connect_to(&address);
    descriptors[1] = accept_one(listener);
    if (descriptors[0] != number)
        FAIL("the number %d has not come back, but %d", number, descriptors[0]);
    for (int i = 0; i < FILLERS; i++)
        if (fillers[i] != number)
            hang_up(fillers[i]);
    hang_up(listener);
}

/* Any number would work; but under Wine a pair takes ten milliseconds and more. */
size_t pairs_possible(size_t wanted)
{
    enum { ENOUGH = 300 };
    return wanted < ENOUGH ? wanted : ENOUGH;
}

int full_listener(struct sockaddr_in *address)
{
    int listener = tcp_listener(0, address);
    for (int i = 0; i < 4; i++)
        begin_to_connect(tcp_socket(), address);
    sleep_ms(5);
    return listener;
}

struct sockaddr_in dead_address(void)
{
    struct sockaddr_in address;
    hang_up(tcp_listener(1, &address));
    return address;
}

static void await(int number, short events)
{
    WSAPOLLFD entry = {.fd = socket_of(number), .events = events};
    while (WSAPoll(&entry, 1, 1000) == 0)
        ;
}

int begin_to_connect(int descriptor, const struct sockaddr_in *address)
{
    int64_t result = result_or_error(connect(socket_of(descriptor), (const struct sockaddr *)address, sizeof *address));
    return result == -EAGAIN ? -EINPROGRESS : (int)result;
}

int connect_to(const struct sockaddr_in *address)
{
    int client = tcp_socket(), result = begin_to_connect(client, address);
    CHECK(result == 0 || result == -EINPROGRESS);
    await(client, POLLWRNORM);
    return client;
}

void await_input(int descriptor)
{
    await(descriptor, POLLRDNORM);
}

int accept_one(int listener)
{
    await_input(listener);
    return fit(accept(socket_of(listener), NULL, NULL));
}

void accept_all(int listener)
{
    while (accept(socket_of(listener), NULL, NULL) != INVALID_SOCKET)
        ;
    CHECK_EQ(WSAGetLastError(), WSAEWOULDBLOCK);
}

struct sockaddr_in own_address(int descriptor)
{
    struct sockaddr_in address;
    int size = sizeof address;
    MUST_SUCCEED(getsockname(socket_of(descriptor), (struct sockaddr *)&address, &size));
    return address;
}

int64_t write_now(int descriptor, const void *data, size_t size)
{
    return result_or_error(send(socket_of(descriptor), data, (int)size, 0));
}

void write_all(int descriptor, const void *data, size_t size)
{
    const char *rest = data;
    while (size > 0) {
        int64_t written = write_now(descriptor, rest, size);
        if (written == -EAGAIN) {
            await(descriptor, POLLWRNORM);
            continue;
        }
        if (written < 0)
            FAIL("writing to the peer failed: error %d", WSAGetLastError());
        rest += written;
        size -= (size_t)written;
    }
}

void write_urgent(int descriptor, char byte)
{
    CHECK_EQ(send(socket_of(descriptor), &byte, 1, MSG_OOB), 1);
}

int64_t read_now(int descriptor, void *buffer, size_t size)
{
    return result_or_error(recv(socket_of(descriptor), buffer, (int)size, 0));
}

size_t read_some(int descriptor, void *buffer, size_t size)
{
    int64_t received;
    while ((received = read_now(descriptor, buffer, size)) == -EAGAIN)
        await_input(descriptor);
    if (received < 0)
        FAIL("reading from the peer failed: error %d", WSAGetLastError());
    return (size_t)received;
}

void end_stream(int descriptor)
{
    MUST_SUCCEED(shutdown(socket_of(descriptor), SD_SEND));
}

void hang_up(int descriptor)
{
    MUST_SUCCEED(closesocket(socket_of(descriptor)));
}

void reset(int descriptor)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    MUST_SUCCEED(setsockopt(socket_of(descriptor), SOL_SOCKET, SO_LINGER, (char *)&linger, sizeof linger));
    hang_up(descriptor);
}

static size_t fill_once(int descriptor)
{
    char zeros[4096] = {0};
    size_t total = 0;
    int64_t written = 0;
    for (size_t size = sizeof zeros; size > 0; size = size > 1 ? 1 : 0)
        while ((written = write_now(descriptor, zeros, size)) > 0)
            total += (size_t)written;
    CHECK_EQ(written, -EAGAIN);
    return total;
}

size_t fill(int descriptor)
{
    size_t total = fill_once(descriptor), more;
    do {
        sleep_ms(60); /* longer than an acknowledgement may be delayed */
        total += more = fill_once(descriptor);
    } while (more > 0);
    return total;
}

size_t drain(int descriptor)
{
    char buffer[65536];
    size_t total = 0;
    int64_t size;
    while ((size = read_now(descriptor, buffer, sizeof buffer)) > 0)
        total += (size_t)size;
    return total;
}

void limit_send_buffer(int descriptor, int size)
{
    MUST_SUCCEED(setsockopt(socket_of(descriptor), SOL_SOCKET, SO_SNDBUF, (char *)&size, sizeof size));
}

/* ------------------------------------------------------------------------------------------- descriptors, files --- */

/* As a socket: the number may have become something else's. */
bool is_open(int descriptor)
{
    int type, size = sizeof type;
    return getsockopt(socket_of(descriptor), SOL_SOCKET, SO_TYPE, (char *)&type, &size) == 0 ||
           GetFileType((HANDLE)(intptr_t)descriptor) == FILE_TYPE_DISK;
}

/* Windows cannot say whether a socket is non-blocking; a receive that returns shows it. */
bool is_fit_for_a_loop(int descriptor)
{
    DWORD flags;
    char byte;
    CHECK(GetHandleInformation((HANDLE)(intptr_t)descriptor, &flags));
    return !(flags & HANDLE_FLAG_INHERIT) && recv(socket_of(descriptor), &byte, 1, MSG_PEEK) != 0;
}

int open_descriptors(void)
{
    DWORD count;
    CHECK(GetProcessHandleCount(GetCurrentProcess(), &count));
    return (int)count;
}

/* For overlapped operations, which do not move its position. */
int file_with(const void *data, size_t size)
{
    char folder[MAX_PATH], path[MAX_PATH];
    OVERLAPPED overlapped = {0};
    DWORD written = 0;
    CHECK(GetTempPathA(sizeof folder, folder));
    CHECK(GetTempFileNameA(folder, "mr", 0, path));
    HANDLE file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_ALWAYS,
                              FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE | FILE_FLAG_OVERLAPPED, NULL);
    CHECK(file != INVALID_HANDLE_VALUE);
    CHECK(WriteFile(file, data, (DWORD)size, NULL, &overlapped) || GetLastError() == ERROR_IO_PENDING);
    CHECK(GetOverlappedResult(file, &overlapped, &written, TRUE));
    CHECK_EQ(written, size);
    CHECK(SetFilePointerEx(file, (LARGE_INTEGER){.QuadPart = (LONGLONG)size}, NULL, FILE_BEGIN));
    return (int)(intptr_t)file;
}

uint64_t file_position(int file)
{
    LARGE_INTEGER position;
    CHECK(SetFilePointerEx((HANDLE)(intptr_t)file, (LARGE_INTEGER){.QuadPart = 0}, &position, FILE_CURRENT));
    return (uint64_t)position.QuadPart;
}

void close_file(int file)
{
    CHECK(CloseHandle((HANDLE)(intptr_t)file));
}

/* --------------------------------------------------------------------------------------------------------- time --- */

void sleep_us(unsigned us)
{
    sleep_ms((us + 999) / 1000);
}

/* The default period of its clock interrupt is 15.6 ms. */
unsigned system_slack_ms(void)
{
    return 16;
}

uint64_t clock_ns(void)
{
    return mr_clock_now_ns();
}

void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    CHECK_EQ(pthread_create(thread, NULL, run, argument), 0);
}

void sleep_ms(unsigned ms)
{
    Sleep(ms);
}

/* ------------------------------------------------------------------------------------------------------ process --- */

void set_variable(const char *name, const char *value)
{
    CHECK_EQ(_putenv_s(name, value ? value : ""), 0);
}

void let_broken_pipes_kill(void)
{
    /* there is no such signal */
}
