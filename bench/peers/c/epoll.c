/*
 * epoll.c: the server with the least possible cost on epoll: edge-triggered, a thread and a listener for each core, and
 * nothing shared between them. answer.c finds requests and makes the answers.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    int descriptor;
    struct dialogue dialogue;
};

static void watch(int epoll, int descriptor, uint32_t events, void *owner)
{
    struct epoll_event event = {.events = events, .data.ptr = owner};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0) {
        perror("epoll_ctl");
        exit(1);
    }
}

static void accept_all(int epoll, int listener)
{
    for (;;) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): epoll holds the only pointer to the connection, in its events */
        int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0)
            return;
        struct connection *connection = calloc(1, sizeof *connection);
        if (connection == NULL) {
            close(descriptor);
            return;
        }
        connection->descriptor = descriptor;
        watch(epoll, descriptor, EPOLLIN | EPOLLOUT | EPOLLET, connection);
    }
}

/* Sends the bytes of answers that the kernel has not taken yet. Returns false when the connection must be closed. */
static bool send_owed(struct connection *connection)
{
    const char *bytes;
    size_t length;
    while ((length = dialogue_unsent(&connection->dialogue, &bytes)) > 0) {
        ssize_t sent = send(connection->descriptor, bytes, length, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN;
        dialogue_sent(&connection->dialogue, (size_t)sent);
    }
    return !connection->dialogue.closing;
}

static bool serve(struct connection *connection, char *buffer, size_t size)
{
    for (;;) {
        ssize_t received = recv(connection->descriptor, buffer, size, 0);
        if (received < 0)
            return errno == EAGAIN && (connection->dialogue.owed == 0 || send_owed(connection));
        if (received == 0)
            return false;
        dialogue_received(&connection->dialogue, buffer, (size_t)received);
        if (!send_owed(connection))
            return false;
        /* A read that does not fill the buffer has emptied the socket (epoll(7)). Another read would only return
           EAGAIN. */
        if ((size_t)received < size)
            return true;
    }
}

static void *run(void *argument)
{
    struct arguments *arguments = argument;
    char buffer[16384];
    struct epoll_event events[512];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listener_open(arguments->port, SOCK_NONBLOCK);
    watch(epoll, listener, EPOLLIN, NULL);
    for (;;) {
        int count = epoll_wait(epoll, events, 512, -1);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (connection == NULL) {
                accept_all(epoll, listener);
            } else if (!(events[i].events & ~(uint32_t)EPOLLOUT) && connection->dialogue.owed == 0) {
                continue; /* Writable, but nothing to write. This is the first event of every connection. */
            } else if (!serve(connection, buffer, sizeof buffer)) {
                close(connection->descriptor);
                free(connection);
            }
        }
    }
    return NULL;
}

int main(int count, char **values)
{
    struct arguments arguments = arguments_parse(count, values);
    answer_prepare(arguments.service);
    serve_on_threads(&arguments, run);
}
