/* receive.c: how much a receive on a stream waits for. */
#include "shadow_test.h"

#include <sys/socket.h>
#include <sys/time.h>

typedef struct connection {
    int listener, client, server;
} connection;

/* With as small a buffer on the server's side as there is. */
static connection connect_on_loopback(void)
{
    connection c;
    int smallest = 1;
    struct sockaddr_in address;
    c.listener = listen_on_loopback(&address, 1);
    MUST(setsockopt(c.listener, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest));
    c.client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c.client, (struct sockaddr *)&address, sizeof address));
    c.server = MUST(accept(c.listener, NULL, NULL));
    return c;
}

static void disconnect(connection *c)
{
    MUST(close(c->listener));
    MUST(close(c->client));
    MUST(close(c->server));
}

static void *receive_urgent(void *argument)
{
    char byte;
    CHECK_EQ(recv(*(int *)argument, &byte, 1, MSG_OOB), -1);
    return (void *)(intptr_t)errno;
}

/* None, and then one that was announced and has not come, for there is no room before it. */
static void urgent_data_is_not_waited_for(void)
{
    connection c = connect_on_loopback();
    static char much[60000];
    intptr_t error;
    CHECK_EQ((intptr_t)on_fiber(receive_urgent, &c.server), EINVAL);
    CHECK_EQ(send(c.client, much, sizeof much, 0), (ssize_t)sizeof much);
    CHECK_EQ(send(c.client, "!", 1, MSG_OOB), 1);
    while ((error = (intptr_t)on_fiber(receive_urgent, &c.server)) == EINVAL)
        usleep(1000);
    CHECK_EQ(error, EAGAIN);
    disconnect(&c);
}

const fiber_case receive_cases[] = {
    CASE(urgent_data_is_not_waited_for),
    {0},
};
