// The target of proxies of WebSockets: sends the messages of each connection back, one thread with epoll.
//
// Usage: echo PORT. It knows the one key that load.c asks with, so it computes no SHA-1. Messages have less than 126
// bytes, and come in one frame each.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char key[] = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
static const char refusal[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
static const char opening[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

enum { ROOM = 4096, MESSAGE_MAX = 125, FRAME_HEAD = 6, OP_CLOSE = 8 };

struct connection {
    int descriptor;
    bool is_open;
    size_t held; // bytes of a head or a frame that is not complete
    unsigned char bytes[ROOM];
};

static void die(const char *what)
{
    fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool send_all(const struct connection *one, const void *bytes, size_t size)
{
    return send(one->descriptor, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

// Answers the opening, if all of it is here. Stores how many bytes it had.
static bool open_it(struct connection *one, size_t *used)
{
    const unsigned char *end = memmem(one->bytes, one->held, "\r\n\r\n", 4);
    *used = 0;
    if (end == NULL) {
        return one->held < ROOM;
    }
    *used = (size_t)(end - one->bytes) + 4;
    one->is_open = true;
    one->bytes[*used - 1] = 0;
    if (strcasestr((char *)one->bytes, key) == NULL) {
        send_all(one, refusal, sizeof refusal - 1);
        return false;
    }
    return send_all(one, opening, sizeof opening - 1);
}

// Sends the whole frames back that are here, all at once. Stores how many bytes they had.
static bool echo_frames(const struct connection *one, size_t *used)
{
    unsigned char answer[ROOM];
    size_t length = 0, offset = 0;
    while (one->held - offset >= FRAME_HEAD) {
        const unsigned char *frame = one->bytes + offset;
        size_t size = frame[1] & 0x7f;
        if (!(frame[0] & 0x80) || !(frame[1] & 0x80) || size > MESSAGE_MAX) {
            return false;
        }
        if (one->held - offset < FRAME_HEAD + size) {
            break;
        }
        answer[length++] = frame[0];
        answer[length++] = (unsigned char)size;
        for (size_t at = 0; at < size; at++) {
            answer[length++] = frame[FRAME_HEAD + at] ^ frame[2 + at % 4];
        }
        offset += FRAME_HEAD + size;
        if ((frame[0] & 15) == OP_CLOSE) {
            send_all(one, answer, length);
            return false;
        }
    }
    *used = offset;
    return length == 0 || send_all(one, answer, length);
}

static bool serve(struct connection *one)
{
    ssize_t size = recv(one->descriptor, one->bytes + one->held, ROOM - one->held, 0);
    if (size <= 0) {
        return size < 0 && errno == EAGAIN;
    }
    one->held += (size_t)size;
    size_t used = 0;
    if (!one->is_open) {
        if (!open_it(one, &used)) {
            return false;
        }
        one->held -= used;
        memmove(one->bytes, one->bytes + used, one->held);
    }
    if (one->is_open) {
        if (!echo_frames(one, &used)) {
            return false;
        }
        one->held -= used;
        memmove(one->bytes, one->bytes + used, one->held);
    }
    return true;
}

static void watch(int poller, int descriptor, void *owner)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        die("cannot watch a descriptor");
    }
}

static void accept_all(int poller, int listener)
{
    int descriptor;
    while ((descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *one = calloc(1, sizeof *one);
        if (one == NULL) {
            die("no memory");
        }
        one->descriptor = descriptor;
        watch(poller, descriptor, one);
    }
}

static int listen_on(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    // Accepted sockets inherit TCP_NODELAY on Linux.
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0) {
        die("cannot listen");
    }
    return listener;
}

int main(int count, char **words)
{
    struct rlimit limit;
    if (count != 2) {
        fprintf(stderr, "usage: echo PORT\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    int listener = listen_on(atoi(words[1]));
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0) {
        die("cannot begin");
    }
    watch(poller, listener, NULL);
    struct epoll_event events[256];
    for (;;) {
        int ready = epoll_wait(poller, events, 256, -1);
        for (int index = 0; index < ready; index++) {
            struct connection *one = events[index].data.ptr;
            if (one == NULL) {
                accept_all(poller, listener);
            } else if (!serve(one)) {
                close(one->descriptor);
                free(one);
            }
        }
    }
}
