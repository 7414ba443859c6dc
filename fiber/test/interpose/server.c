/* server.c: a server of plain blocking calls, one fiber for each connection, and clients of the same kind. */
#include "interpose_test.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { CLIENTS = 100, ROUNDS = 20 };

static void *echo(void *argument)
{
    int connection = (int)(intptr_t)argument;
    char buffer[512];
    ssize_t got;
    while ((got = recv(connection, buffer, sizeof buffer, 0)) > 0)
        CHECK_EQ(send(connection, buffer, (size_t)got, 0), got);
    CHECK_EQ(got, 0);
    close(connection);
    return NULL;
}

static void *serve(void *argument)
{
    int listener = *(int *)argument;
    for (int i = 0; i < CLIENTS; i++) {
        int connection = MUST(accept(listener, NULL, NULL));
        CHECK_EQ(mr_fiber_spawn(NULL, NULL, echo, (void *)(intptr_t)connection), 0);
    }
    return NULL;
}

static void *talk(void *argument)
{
    struct sockaddr_in *address = argument;
    char buffer[64];
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)address, sizeof *address));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(write(client, "a question", 10), 10);
        CHECK_EQ(recv(client, buffer, 10, MSG_WAITALL), 10);
        CHECK_MEMORY(buffer, "a question", 10);
        if (i % 5 == 0)
            usleep(1000);
    }
    close(client);
    return NULL;
}

static void blocking_clients_and_server_on_one_carrier(void)
{
    struct sockaddr_in address;
    mr_fiber *clients[CLIENTS];
    int listener = listen_on_loopback(&address, CLIENTS);
    mr_fiber *server = spawn(serve, &listener);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = spawn(talk, &address);
    for (int i = 0; i < CLIENTS; i++)
        join(clients[i]);
    join(server);
    close(listener);
}

static void *accept_one(void *argument)
{
    return (void *)(intptr_t)accept(*(int *)argument, NULL, NULL);
}

/* Several fibers accept on one blocking listener; each connection goes to one of them. */
static void several_acceptors(void)
{
    struct sockaddr_in address;
    mr_fiber *acceptors[10];
    int clients[10];
    int listener = listen_on_loopback(&address, 16);
    for (int i = 0; i < 10; i++)
        acceptors[i] = spawn(accept_one, &listener);
    for (int i = 0; i < 10; i++) {
        clients[i] = MUST(socket(AF_INET, SOCK_STREAM, 0));
        CHECK_EQ(mr_fiber_sleep(2 * NS_PER_MS), 0);
        MUST(connect(clients[i], (struct sockaddr *)&address, sizeof address));
    }
    for (int i = 0; i < 10; i++) {
        int connection = (int)(intptr_t)join(acceptors[i]);
        CHECK_GE(connection, 0);
        close(connection);
        close(clients[i]);
    }
    close(listener);
}

static void *connect_nowhere(void *argument)
{
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(connect(client, argument, sizeof(struct sockaddr_in)), -1);
    CHECK_EQ(errno, ECONNREFUSED);
    close(client);
    return NULL;
}

static void a_refused_connection(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0)); /* bound, so that no other program gets the port */
    MUST(bind(listener, (struct sockaddr *)&address, size));
    MUST(getsockname(listener, (struct sockaddr *)&address, &size));
    on_fiber(connect_nowhere, &address);
    close(listener);
}

const fiber_case server_cases[] = {
    CASE(blocking_clients_and_server_on_one_carrier),
    CASE(several_acceptors),
    CASE(a_refused_connection),
    {0},
};
