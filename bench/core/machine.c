/*
 * machine.c: measures many connections on one simulated machine, served by one loop. Its last line is one number.
 *
 *   machine turn N      N connections and 100,000 requests per second of virtual time, on the connections in order:
 *                       the CPU time of one operation, in seconds
 *   machine random N    the same, on connections chosen at random
 *   machine idle N      N silent connections, whose receives end at their deadline: the CPU time of one deadline, from
 *                       setting it to the error, in seconds
 *   machine memory N    the growth of the process for N connections with both their ends, in bytes
 *
 * A request is five operations over a link of a millisecond: a client's timer and its send, the server's receive into a
 * borrowed buffer with a deadline, the server's send, and the client's receive.
 */
#include "millrace_machine.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define IDLE_NS   (86400 * NS_PER_S)

enum { BATCH = 256, REQUEST_BYTES = 100, RESPONSE_BYTES = 200, OPERATIONS_PER_REQUEST = 5 };
enum { REQUESTS_PER_S = 100000, REQUESTS = 1000000 };

/* What a completion is for. user_data is the connection's number times ROLES, plus the role. */
enum { REQUEST_IS_DUE, SERVER_RECEIVED, CLIENT_RECEIVED, SENT, ROLES };

typedef struct connection {
    mr_handle client, server;
    char response[RESPONSE_BYTES];
} connection;

static mr_machine *machine;
static mr_group *group;
static mr_loop *loop;
static connection *connections;
static size_t connection_count;
static uint64_t served;
static bool is_random;

static _Noreturn void stop(const char *problem)
{
    fprintf(stderr, "machine: %s\n", problem);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t resident_bytes(void)
{
    unsigned long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
        stop("cannot read /proc/self/statm");
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void serve(const mr_completion *completion);

/* NOLINTBEGIN(misc-no-recursion): an operation that completes at once is served at once. The depth is bounded, because
 * a connection has one request in flight. */
static void submit(mr_request request, uint64_t number, unsigned role)
{
    mr_completion completion;
    request.user_data = number * ROLES + role;
    if (mr_loop_submit(loop, &request, &completion) == MR_DONE)
        serve(&completion);
}

static void await_request(uint64_t number)
{
    submit((mr_request){.kind = MR_RECV,
                        .handle = connections[number].server,
                        .length = REQUEST_BYTES,
                        .flags = MR_BORROW | MR_WITHIN,
                        .deadline_ns = IDLE_NS},
           number, SERVER_RECEIVED);
}

static void await_response(uint64_t number)
{
    submit((mr_request){.kind = MR_RECV,
                        .handle = connections[number].client,
                        .buffer = connections[number].response,
                        .length = RESPONSE_BYTES},
           number, CLIENT_RECEIVED);
}

static void send_bytes(mr_handle handle, size_t size)
{
    static char bytes[RESPONSE_BYTES];
    submit((mr_request){.kind = MR_SEND, .flags = MR_ALL, .handle = handle, .buffer = bytes, .length = size}, size,
           SENT);
}

/* The number of requests per second does not depend on the number of connections. */
static void plan_request(void)
{
    static uint64_t random = 88172645463325252u, turn, due_ns;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    if (!due_ns)
        due_ns = mr_machine_now_ns(machine);
    due_ns += NS_PER_S / REQUESTS_PER_S;
    submit((mr_request){.kind = MR_TIMEOUT, .deadline_ns = due_ns}, (is_random ? random : turn++) % connection_count,
           REQUEST_IS_DUE);
}

static void expect(const mr_completion *completion, int64_t result)
{
    if (completion->result != result)
        stop("an operation had an unexpected result");
}

static void serve(const mr_completion *completion)
{
    uint64_t number = completion->user_data / ROLES;
    switch (completion->user_data % ROLES) {
    case REQUEST_IS_DUE:
        send_bytes(connections[number].client, REQUEST_BYTES);
        plan_request();
        break;
    case SERVER_RECEIVED:
        expect(completion, REQUEST_BYTES);
        mr_loop_give_back(loop, completion->buffer);
        send_bytes(connections[number].server, RESPONSE_BYTES);
        await_request(number);
        break;
    case CLIENT_RECEIVED:
        expect(completion, RESPONSE_BYTES);
        await_response(number);
        served++;
        break;
    case SENT:
        expect(completion, (int64_t)number);
        break;
    }
}
/* NOLINTEND(misc-no-recursion) */

static int poll_loop(void (*act)(const mr_completion *))
{
    mr_completion completions[BATCH];
    int count = mr_loop_poll(loop, completions, BATCH);
    for (int i = 0; i < count; i++)
        act(&completions[i]);
    for (int i = 0; i < count; i++)
        mr_loop_release(loop, completions[i].token);
    if (count == 0 && mr_loop_prepare_wait(loop))
        mr_loop_wait(loop);
    return count;
}

/* --------------------------------------------------------------------------------------------------- workloads --- */

static mr_handle adopt(int descriptor)
{
    mr_handle handle;
    if (descriptor < 0 || mr_group_adopt(group, descriptor, &handle))
        stop("cannot adopt a descriptor of the simulated machine");
    return handle;
}

static void connect_all(void)
{
    connections = calloc(connection_count, sizeof *connections);
    for (size_t i = 0; connections && i < connection_count; i++) {
        int ends[2];
        if (mr_machine_socketpair(machine, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
            stop("cannot make a pair of connected sockets on the simulated machine");
        connections[i].client = adopt(ends[0]);
        connections[i].server = adopt(ends[1]);
        await_request(i);
        await_response(i);
    }
}

static double time_of_operation(void)
{
    connect_all();
    for (int i = 0; i < BATCH; i++)
        plan_request();
    while (served < REQUESTS / 10)
        poll_loop(serve);
    uint64_t before = served, begin_ns = cpu_ns();
    while (served < before + REQUESTS)
        poll_loop(serve);
    return (double)(cpu_ns() - begin_ns) / NS_PER_S / (double)(served - before) / OPERATIONS_PER_REQUEST;
}

static void end_idle(const mr_completion *completion)
{
    if (completion->user_data % ROLES != SERVER_RECEIVED || completion->result != -ETIMEDOUT)
        stop("an idle connection did not end with ETIMEDOUT");
    served++;
}

static double time_of_deadline(void)
{
    connect_all();
    uint64_t begin_ns = cpu_ns();
    for (size_t i = 0; i < connection_count; i++) {
        mr_machine_sleep(machine, 10000);
        mr_group_set_deadline(group, loop, connections[i].server, MR_READING,
                              mr_machine_now_ns(machine) + 30 * NS_PER_S);
    }
    while (served < connection_count)
        poll_loop(end_idle);
    return (double)(cpu_ns() - begin_ns) / NS_PER_S / (double)connection_count;
}

static double memory_of_connections(void)
{
    uint64_t before = resident_bytes();
    connect_all();
    return (double)(resident_bytes() - before);
}

int main(int argc, char **argv)
{
    const char *work = argc > 1 ? argv[1] : "";
    connection_count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (connection_count == 0)
        stop("usage: machine turn N | random N | idle N | memory N");
    if (mr_machine_create(&(mr_machine_plan){.seed = 1, .latency_ns = NS_PER_MS}, &machine) ||
        mr_machine_group(machine, &group) || mr_loop_create(group, &loop))
        stop("cannot create a simulated machine with a loop");
    is_random = strcmp(work, "random") == 0;
    double result = is_random || strcmp(work, "turn") == 0 ? time_of_operation()
                    : strcmp(work, "idle") == 0            ? time_of_deadline()
                    : strcmp(work, "memory") == 0          ? memory_of_connections()
                                                           : -1;
    if (result < 0)
        stop("unknown work; usage: machine turn N | random N | idle N | memory N");
    printf("%.12f\n", result);
    return 0;
}
