/* name.c: looking up names. */
#include "../../src/interpose/libc.h"
#include "interpose_test.h"

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
                         NI_NUMERICHOST | NI_NUMERICSERV),
             0);
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

/* Replaces libc's function on a helper thread: a server that does not answer. */
static int fail_late(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **addresses)
{
    (void)name, (void)service, (void)hints, (void)addresses;
    usleep(PAUSE_MS * 1000);
    return EAI_AGAIN;
}

static void *look_up_in_vain(void *argument)
{
    struct addrinfo *found;
    CHECK_EQ(getaddrinfo("localhost", "80", NULL, &found), EAI_AGAIN);
    return argument;
}

static void *open_and_close(void *argument)
{
    int file = MUST(open("/", O_RDONLY | O_DIRECTORY));
    MUST(close(file));
    return argument;
}

/* Three of the four helpers look up names at a time; one is left for files. */
static void a_server_that_does_not_answer(void)
{
    enum { LOOKUPS = 8 };
    mr_fiber *fibers[LOOKUPS];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer's runtime has a getaddrinfo that comes before ours");
#endif
    on_fiber(look_up_localhost, NULL); /* leaves one thread that is idle */
    usleep(10000);
    atomic_store(&mf_libc_functions[MF_LIBC_getaddrinfo], (void *)fail_late);
    uint64_t begin_ns = mr_clock_now_ns();
    for (int i = 0; i < LOOKUPS; i++)
        fibers[i] = spawn(look_up_in_vain, NULL);
    on_fiber(open_and_close, NULL);
    CHECK_LT(mr_clock_now_ns() - begin_ns, PAUSE_MS * NS_PER_MS);
    for (int i = 0; i < LOOKUPS; i++)
        join(fibers[i]);
    CHECK_LT(mr_clock_now_ns() - begin_ns, 5 * PAUSE_MS * NS_PER_MS); /* one at a time: 8 */
}

const fiber_case name_cases[] = {
    CASE(many_at_once),
    CASE(the_old_way),
    CASE(a_server_that_does_not_answer),
    {0},
};
