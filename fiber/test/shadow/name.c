/* name.c: looking up names. */
#include "shadow_test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

static void *look_up_localhost(void *argument)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    char host[64], service[16];
    CHECK_EQ(getaddrinfo("localhost", "80", &hints, &found), 0);
    struct sockaddr_in *address = (struct sockaddr_in *)found->ai_addr;
    CHECK_EQ(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
    CHECK_EQ(ntohs(address->sin_port), 80);
    CHECK_EQ(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, service, sizeof service,
                         NI_NUMERICHOST | NI_NUMERICSERV), 0);
    CHECK_EQ(strcmp(host, "127.0.0.1"), 0);
    CHECK_EQ(strcmp(service, "80"), 0);
    freeaddrinfo(found);
    return argument;
}

static void many_at_once(void)
{
    mr_fiber *fibers[60];
    for (int i = 0; i < 60; i++)
        fibers[i] = spawn(look_up_localhost, NULL);
    for (int i = 0; i < 60; i++)
        join(fibers[i]);
}

static void *look_up_the_old_way(void *argument)
{
    struct hostent entry, *found = NULL;
    char buffer[2048];
    int error = 0;
    CHECK_EQ(gethostbyname_r("localhost", &entry, buffer, sizeof buffer, &found, &error), 0);
    CHECK(found == &entry);
    CHECK_EQ(found->h_addrtype, AF_INET);
    h_errno = 0;
    CHECK(gethostbyname("no such name") == NULL);
    CHECK_NE(h_errno, 0);
    found = gethostbyname("127.0.0.1");
    CHECK(found != NULL);
    CHECK_EQ(strcmp(found->h_name, "127.0.0.1"), 0);
    return argument;
}

static void the_old_way(void)
{
    on_fiber(look_up_the_old_way, NULL);
}

const fiber_case name_cases[] = {
    CASE(many_at_once),
    CASE(the_old_way),
    {0},
};
