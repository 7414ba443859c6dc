/* echo.c: answers UDP packets by recvmmsg and sendmmsg, the least possible cost. Usage: echo BURST PACKETS */
#define _GNU_SOURCE
#include "toolkit.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { MESSAGES = 64, ROOM = 2048 };

static char bytes[MESSAGES][ROOM];
static struct iovec elements[MESSAGES];
static struct sockaddr_in addresses[MESSAGES];
static struct mmsghdr messages[MESSAGES];

static void prepare(int i)
{
    elements[i] = (struct iovec){bytes[i], ROOM};
    messages[i].msg_hdr = (struct msghdr){
        .msg_name = &addresses[i], .msg_namelen = sizeof addresses[i], .msg_iov = &elements[i], .msg_iovlen = 1};
}

static void check(int succeeded, const char *attempted)
{
    if (!succeeded) {
        perror(attempted);
        exit(1);
    }
}

static int answer_some(int server)
{
    for (int i = 0; i < MESSAGES; i++)
        prepare(i);
    int count = recvmmsg(server, messages, MESSAGES, MSG_WAITFORONE, NULL);
    check(count > 0, "recvmmsg");
    for (int i = 0; i < count; i++)
        elements[i].iov_len = messages[i].msg_len;
    for (int sent = 0; sent < count;) {
        int now = sendmmsg(server, messages + sent, (unsigned)(count - sent), 0);
        check(now > 0, "sendmmsg");
        sent += now;
    }
    return count;
}

int main(int count, char **values)
{
    if (count != 3)
        return 2;
    long left = strtol(values[2], NULL, 10);
    int server = toolkit_udp_server();
    toolkit_udp_load(server, left, (int)strtol(values[1], NULL, 10));
    toolkit_begin();
    while (left > 0)
        left -= answer_some(server);
    toolkit_end();
    return 0;
}
