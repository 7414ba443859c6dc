/*
 * io_uring.c: the least possible cost with completions: a ring and a listener per core. All receives and sends of an
 * iteration are submitted in one system call. answer.c has the answers.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    int descriptor;
    bool receiving, sending;
    bool over; /* close it as soon as nothing is in flight */
    struct dialogue dialogue;
    char buffer[2048];
};

/* The user data of a completion is the connection, with the operation in the lowest bit. NULL is the listener. */
enum { OPERATION_RECEIVE = 0, OPERATION_SEND = 1 };

static struct io_uring_sqe *entry(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (sqe == NULL) {
        io_uring_submit(ring);
        sqe = io_uring_get_sqe(ring);
    }
    if (sqe == NULL)
        abort();
    return sqe;
}

static void tag(struct io_uring_sqe *sqe, struct connection *connection, uintptr_t operation)
{
    io_uring_sqe_set_data64(sqe, (uintptr_t)connection | operation);
}

static void start_accept(struct io_uring *ring, int listener)
{
    struct io_uring_sqe *sqe = entry(ring);
    io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
    tag(sqe, NULL, 0);
}

static void start_receive(struct io_uring *ring, struct connection *connection)
{
    struct io_uring_sqe *sqe = entry(ring);
    io_uring_prep_recv(sqe, connection->descriptor, connection->buffer, sizeof connection->buffer, 0);
    tag(sqe, connection, OPERATION_RECEIVE);
    connection->receiving = true;
}

static void start_send(struct io_uring *ring, struct connection *connection)
{
    const char *bytes;
    size_t length = dialogue_unsent(&connection->dialogue, &bytes);
    struct io_uring_sqe *sqe = entry(ring);
    io_uring_prep_send(sqe, connection->descriptor, bytes, length, MSG_NOSIGNAL | MSG_WAITALL);
    tag(sqe, connection, OPERATION_SEND);
    connection->sending = true;
}

static void accepted(struct io_uring *ring, int listener, int descriptor)
{
    struct connection *connection = descriptor < 0 ? NULL : calloc(1, sizeof *connection);
    if (connection != NULL) {
        connection->descriptor = descriptor;
        start_receive(ring, connection);
    } else if (descriptor >= 0) {
        close(descriptor);
    }
    start_accept(ring, listener);
}

static void received(struct connection *connection, int result)
{
    connection->receiving = false;
    if (result <= 0)
        connection->over = true;
    else
        dialogue_received(&connection->dialogue, connection->buffer, (size_t)result);
}

static void sent(struct connection *connection, int result)
{
    connection->sending = false;
    if (result < 0)
        connection->over = true;
    else
        dialogue_sent(&connection->dialogue, (size_t)result);
}

/* Submits the next operation of the connection, or ends it. */
static void continue_with(struct io_uring *ring, struct connection *connection)
{
    bool owing = connection->dialogue.owed > 0;
    if (connection->dialogue.closing && !owing)
        connection->over = true;
    if (connection->over) {
        if (connection->receiving && !connection->sending)
            shutdown(connection->descriptor, SHUT_RDWR);
        if (!connection->receiving && !connection->sending) {
            close(connection->descriptor);
            free(connection);
        }
        return;
    }
    if (owing && !connection->sending)
        start_send(ring, connection);
    if (!connection->receiving && !connection->dialogue.closing)
        start_receive(ring, connection);
}

static void *run(void *argument)
{
    struct arguments *arguments = argument;
    struct io_uring ring;
    int listener = listener_open(arguments->port, 0);
    int error = io_uring_queue_init(4096, &ring, IORING_SETUP_COOP_TASKRUN);
    if (error < 0) {
        fprintf(stderr, "cannot create a ring (io_uring_queue_init): %s\n", strerror(-error));
        exit(1);
    }
    start_accept(&ring, listener);
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            uintptr_t data = (uintptr_t)io_uring_cqe_get_data64(cqe);
            struct connection *connection = (struct connection *)(data & ~(uintptr_t)1);
            count++;
            if (connection == NULL) {
                accepted(&ring, listener, cqe->res);
                continue;
            }
            if ((data & 1) == OPERATION_SEND)
                sent(connection, cqe->res);
            else
                received(connection, cqe->res);
            continue_with(&ring, connection);
        }
        io_uring_cq_advance(&ring, count);
    }
    return NULL;
}

int main(int count, char **values)
{
    struct arguments arguments = arguments_parse(count, values);
    answer_prepare(arguments.service);
    serve_on_threads(&arguments, run);
}
