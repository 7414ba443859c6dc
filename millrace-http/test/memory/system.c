/* system.c - files, sockets and random bytes, as the system has them. */
#include "memory_test.h"

#include "http_file.h"
#include "http_random.h"
#include "http_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 100000 };

static char folder[] = "/tmp/millrace-http-XXXXXX";

static void remove_folder(void)
{
    static const char *const names[] = {"file", "pipe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* A path in a folder that exists as long as the test. */
static const char *path_of(const char *name)
{
    static char path[100];
    static bool is_made;
    if (!is_made) {
        is_made = true;
        CHECK(mkdtemp(folder) && atexit(remove_folder) == 0);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static uint8_t byte_at(size_t position)
{
    return (uint8_t)(position * 5 + position / 251);
}

static const char *make_file(void)
{
    uint8_t *bytes = malloc(SIZE);
    CHECK(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = byte_at(i);
    const char *path = path_of("file");
    int file = MUST(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    CHECK_EQ(write(file, bytes, SIZE), SIZE);
    MUST(close(file));
    free(bytes);
    return path;
}

typedef int opening(const void *path, http_file *file);
typedef int64_t reading(int descriptor, uint8_t *destination, size_t length, int64_t offset);

static void check_file(const char *path, opening *open_it, reading *read_it)
{
    http_file file = {.descriptor = -1};
    struct stat status;
    MUST(stat(path, &status));
    CHECK_EQ(open_it(path, &file), 0);
    CHECK_EQ(file.size, status.st_size);
    CHECK_EQ(file.modified_seconds, status.st_mtime);
    CHECK(MUST(fcntl(file.descriptor, F_GETFD)) & FD_CLOEXEC);
    static const size_t offsets[] = {0, 1, 4095, SIZE - 10, SIZE, SIZE + 10};
    uint8_t *bytes = malloc(SIZE);
    CHECK(bytes);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        size_t left = offsets[i] < SIZE ? SIZE - offsets[i] : 0;
        CHECK_EQ(read_it(file.descriptor, bytes, SIZE, (int64_t)offsets[i]), left);
        for (size_t at = 0; at < left; at++)
            CHECK_EQ(bytes[at], byte_at(offsets[i] + at));
    }
    CHECK_EQ(read_it(file.descriptor, bytes, 0, 0), 0);
    CHECK_EQ(read_it(file.descriptor, bytes, 10, -1), -EINVAL);
    CHECK_EQ(read_it(-1, bytes, 10, 0), -EBADF);
    free(bytes);
    http_file_close(file.descriptor);
    CHECK_EQ(fcntl(file.descriptor, F_GETFD), -1);
}

/* What was just written is in memory, so that the calls that do not wait read all of it. */
void files(uintptr_t unused)
{
    (void)unused;
    const char *path = make_file();
    check_file(path, http_file_open, http_file_read);
    check_file(path, http_file_open_at_once, http_file_read_at_once);
    check_file(path, http_file_open_at_once, http_file_read);
}

static void check_refused(const char *path, int error)
{
    http_file file = {.descriptor = -7};
    CHECK_EQ(http_file_open(path, &file), error);
    CHECK_EQ(http_file_open_at_once(path, &file), error);
    CHECK_EQ(file.descriptor, -7);
}

/* Only regular files are served. A pipe without a writer is refused at once. */
void files_refused(uintptr_t unused)
{
    (void)unused;
    check_refused("/dev/null", -EACCES);
    check_refused("/", -EISDIR);
    check_refused(path_of("none"), -ENOENT);
    const char *pipe = path_of("pipe");
    MUST(mkfifo(pipe, 0600));
    check_refused(pipe, -EACCES);
    http_file file;
    CHECK_EQ(http_file_examine(-1, &file), -EBADF);
}

/* The path /proc/self/fd/N of an open file, also of one that has no other path any more. */
void files_by_descriptor(uintptr_t unused)
{
    (void)unused;
    const char *path = make_file();
    int for_both = MUST(open(path, O_RDWR | O_CLOEXEC)), for_writing = MUST(open(path, O_WRONLY | O_CLOEXEC));
    int for_nothing = MUST(open(path, O_PATH | O_CLOEXEC));
    char by_number[100];
    (void)snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", for_both);
    check_file(by_number, http_file_open, http_file_read);
    check_file(by_number, http_file_open_at_once, http_file_read_at_once);
    /* The kernel opens these anew. */
    (void)snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", for_writing);
    check_file(by_number, http_file_open, http_file_read);
    (void)snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", for_nothing);
    check_file(by_number, http_file_open, http_file_read);
    MUST(unlink(path));
    http_file file = {0};
    (void)snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", for_both);
    CHECK_EQ(http_file_open(by_number, &file), 0);
    CHECK_EQ(file.size, SIZE);
    http_file_close(file.descriptor);
    static const char *const no_numbers[] = {
        "/proc/self/fd/",   "/proc/self/fd/x",        "/proc/self/fd/1x",
        "/proc/self/fd/01", "/proc/self/fd/99999999", "/proc/self/fd/99999999999999999999",
    };
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++)
        CHECK_LT(http_file_open(no_numbers[i], &file), 0);
    MUST(close(for_both));
    MUST(close(for_writing));
    MUST(close(for_nothing));
}

/* One has the lock until its descriptor is closed. */
void folder_locks(uintptr_t unused)
{
    (void)unused;
    (void)path_of("file");
    int lock = http_file_lock_folder(folder);
    CHECK_GE(lock, 0);
    CHECK_EQ(http_file_lock_folder(folder), -EAGAIN);
    MUST(close(lock));
    lock = http_file_lock_folder(folder);
    CHECK_GE(lock, 0);
    MUST(close(lock));
    CHECK_EQ(http_file_lock_folder(path_of("none")), -ENOENT);
    CHECK_EQ(http_file_lock_folder("/dev/null"), -ENOTDIR);
}

/* Sockets ********************************************************************************************************* */

static void wait_for_input(int socket)
{
    struct pollfd ask = {.fd = socket, .events = POLLIN};
    CHECK_EQ(poll(&ask, 1, 10000), 1);
}

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(bind(listener, (struct sockaddr *)address, sizeof *address));
    MUST(getsockname(listener, (struct sockaddr *)address, &size));
    return listener;
}

void sockets(uintptr_t unused)
{
    (void)unused;
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    MUST(listen(listener, 5));
    CHECK(!http_socket_pending(listener) && !http_socket_is_over(listener));
    int client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    wait_for_input(listener);
    CHECK(http_socket_pending(listener));
    int server = MUST(accept(listener, NULL, NULL));
    CHECK(!http_socket_pending(server) && !http_socket_is_over(server));
    CHECK_EQ(http_socket_arrived(server), 0);
    CHECK_EQ(write(client, "hello", 5), 5);
    wait_for_input(server);
    CHECK(http_socket_pending(server));
    CHECK_EQ(http_socket_arrived(server), 5);
    CHECK(http_socket_quiet_millis(server) >= 0 && http_socket_quiet_millis(client) >= 0);
    CHECK_GE(http_socket_queued(client), 0);
    int same = http_socket_duplicate(server);
    CHECK(same >= 0 && same != server);
    CHECK_EQ(http_socket_arrived(same), 5);
    MUST(close(same));
    /* A client that resets the connection. */
    struct linger at_once = {.l_onoff = 1};
    MUST(setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    MUST(close(client));
    wait_for_input(server);
    CHECK(http_socket_is_over(server));
    /* Whoever is turned away finds another listener. */
    CHECK_EQ(http_socket_turn_away(listener), 0);
    http_socket_welcome(server);
    MUST(close(server));
    MUST(close(listener));
    /* What is not open, or no socket, has nothing. */
    CHECK_EQ(http_socket_queued(-1), 0);
    CHECK_EQ(http_socket_arrived(-1), 0);
    CHECK_EQ(http_socket_quiet_millis(-1), -1);
    CHECK_EQ(http_socket_turn_away(-1), -1);
    CHECK_EQ(http_socket_duplicate(-1), -1);
    CHECK(!http_socket_pending(-1) && !http_socket_is_over(-1));
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CHECK_EQ(http_socket_quiet_millis(ends[0]), -1);
    CHECK_EQ(write(ends[0], "hello", 5), 5);
    CHECK_GE(http_socket_queued(ends[0]), 5);
}

void kinds_of_descriptors(uintptr_t unused)
{
    (void)unused;
    struct sockaddr_in address;
    int stream = listen_on_loopback(&address), datagrams = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    int ends[2];
    MUST(pipe(ends));
    CHECK_EQ(http_socket_kind(stream), HTTP_SOCKET_NOT_LISTENING);
    MUST(listen(stream, 5));
    CHECK_EQ(http_socket_kind(stream), HTTP_SOCKET_LISTENS);
    CHECK_EQ(http_socket_kind(datagrams), HTTP_SOCKET_NO_STREAM);
    CHECK_EQ(http_socket_kind(ends[0]), HTTP_SOCKET_NONE);
    MUST(close(stream));
    CHECK_EQ(http_socket_kind(stream), HTTP_SOCKET_CLOSED);
}

/* Random bytes **************************************************************************************************** */

void random_bytes(uintptr_t unused)
{
    (void)unused;
    uint8_t one[32] = {0}, other[32] = {0};
    CHECK_EQ(http_random_fill(one, sizeof one), 0);
    CHECK_EQ(http_random_fill(other, sizeof other), 0);
    CHECK(memcmp(one, other, sizeof one) != 0);
    static uint8_t many[257]; /* the system gives at most 256 at a time */
    CHECK_EQ(http_random_fill(many, sizeof many), -EIO);
}
