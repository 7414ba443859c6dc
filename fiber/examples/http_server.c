/*
 * http_server.c: an HTTP server in the oldest style: it accepts connections, and serves each by blocking recv and send.
 *
 * The only call that is not libc's is mr_fiber_spawn, where another program would call pthread_create. It answers every
 * request with the same page, and finds the end of requests without a body.
 *
 *   http_server PORT        0: any; the port is printed
 */
#include "millrace_fiber.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

/* Answers the complete requests in the buffer; returns how many bytes of it belong to the next one, -1 if the client
 * is gone. */
static long answer_requests(int connection, char *buffer, size_t filled)
{
    char *request = buffer, *end;
    while ((end = memmem(request, filled - (size_t)(request - buffer), "\r\n\r\n", 4))) {
        if (send(connection, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0)
            return -1;
        request = end + 4;
    }
    size_t left = filled - (size_t)(request - buffer);
    memmove(buffer, request, left);
    return (long)left;
}

static void *serve(void *argument)
{
    int connection = (int)(intptr_t)argument;
    char buffer[4096];
    size_t filled = 0;
    ssize_t got;
    while (filled < sizeof buffer && (got = recv(connection, buffer + filled, sizeof buffer - filled, 0)) > 0) {
        long left = answer_requests(connection, buffer, filled + (size_t)got);
        if (left < 0)
            break;
        filled = (size_t)left;
    }
    close(connection);
    return NULL;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1024) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0)
        die("listen");
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void *accept_connections(void *argument)
{
    int listener = (int)(intptr_t)argument;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            die("accept");
        if (mr_fiber_spawn(NULL, NULL, serve, (void *)(intptr_t)connection) != 0)
            close(connection);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = listen_on(argc > 1 ? (uint16_t)atoi(argv[1]) : 8080);
    if (mr_fiber_spawn(NULL, NULL, accept_connections, (void *)(intptr_t)listener) != 0)
        die("spawn");
    for (;;)
        pause();
}
