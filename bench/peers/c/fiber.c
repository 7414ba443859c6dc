/*
 * fiber.c: the simplest way to write a server in C: blocking accept, recv and send, and a function per connection. It
 * starts Millrace's fibers where another program would create threads.
 */
#define _GNU_SOURCE
#include "answer.h"
#include "millrace_fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool send_owed(int connection, struct dialogue *dialogue)
{
    const char *bytes;
    size_t length;
    while ((length = dialogue_unsent(dialogue, &bytes)) > 0) {
        ssize_t sent = send(connection, bytes, length, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        dialogue_sent(dialogue, (size_t)sent);
    }
    return !dialogue->closing;
}

static void *serve(void *argument)
{
    int connection = (int)(intptr_t)argument;
    struct dialogue dialogue = {0};
    char buffer[16384];
    ssize_t received;
    while ((received = recv(connection, buffer, sizeof buffer, 0)) > 0) {
        dialogue_received(&dialogue, buffer, (size_t)received);
        if (!send_owed(connection, &dialogue))
            break;
    }
    close(connection);
    return NULL;
}

static void *accept_connections(void *argument)
{
    int listener = (int)(intptr_t)argument, connection;
    while ((connection = accept(listener, NULL, NULL)) >= 0)
        if (mr_fiber_spawn(NULL, NULL, serve, (void *)(intptr_t)connection) != 0)
            close(connection);
    perror("accept");
    exit(1);
}

int main(int count, char **values)
{
    struct arguments arguments = arguments_parse(count, values);
    answer_prepare(arguments.service);
    mr_carriers_options options = {.carriers = (unsigned)arguments.threads};
    if (mr_carriers_start(&options) != 0)
        return 1;
    for (int i = 0; i < arguments.threads; i++)
        if (mr_fiber_spawn(NULL, NULL, accept_connections, (void *)(intptr_t)listener_open(arguments.port, 0)) != 0)
            return 1;
    for (;;)
        pause();
}
