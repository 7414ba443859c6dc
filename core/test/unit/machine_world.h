/* machine_world.h: a simulated machine with a loop and connections, for its unit tests. */
#ifndef MILLRACE_UNIT_MACHINE_WORLD_H
#define MILLRACE_UNIT_MACHINE_WORLD_H

#include "millrace_machine.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define NEVER_NS  UINT64_MAX

/* A machine, and a loop on it. */
typedef struct world {
    mr_machine *machine;
    mr_group *group;
    mr_loop *loop;
    mr_completion last; /* the latest completion */
    int arrived;        /* the number of completions since this was set to 0 */
} world;

static inline world new_world(const mr_machine_plan *plan)
{
    world w = {0};
    CHECK_EQ(mr_machine_create(plan, &w.machine), 0);
    CHECK_EQ(mr_machine_group(w.machine, &w.group), 0);
    CHECK_EQ(mr_loop_create(w.group, &w.loop), 0);
    return w;
}

/* All descriptors must be closed, and all sent bytes received or dropped. */
static inline void free_world(world *w)
{
    mr_machine_state state;
    mr_machine_inspect(w->machine, &state);
    CHECK_EQ(state.open_descriptors, 0);
    CHECK_EQ(state.buffered_bytes, 0);
    mr_loop_destroy(w->loop);
    mr_group_destroy(w->group);
    mr_machine_destroy(w->machine);
}

static inline int poll_loop(world *w)
{
    mr_completion completions[64];
    int count = mr_loop_poll(w->loop, completions, 64);
    for (int i = 0; i < count; i++)
        mr_loop_release(w->loop, completions[i].token);
    if (count)
        w->last = completions[count - 1];
    w->arrived += count;
    return count;
}

/* Polls until this many completions have arrived. */
static inline void run_until(world *w, int count)
{
    NOTE_LINE();
    w->arrived = 0;
    while (w->arrived < count)
        if (poll_loop(w) == 0 && mr_loop_prepare_wait(w->loop))
            mr_loop_wait(w->loop);
}

static inline mr_completion perform(world *w, mr_request request)
{
    mr_completion completion;
    if (mr_loop_submit(w->loop, &request, &completion) == MR_DONE)
        return completion;
    run_until(w, 1);
    CHECK_EQ(w->last.token, completion.token);
    return w->last;
}

static inline mr_token start(world *w, mr_request request)
{
    mr_completion completion;
    CHECK_EQ(mr_loop_submit(w->loop, &request, &completion), MR_PENDING);
    return completion.token;
}

static inline mr_handle adopt(world *w, int descriptor)
{
    mr_handle handle;
    CHECK_GE(descriptor, MR_MACHINE_FIRST);
    CHECK_EQ(mr_group_adopt(w->group, descriptor, &handle), 0);
    return handle;
}

static inline mr_request transfer(mr_kind kind, mr_handle handle, void *buffer, size_t size)
{
    return (mr_request){.kind = kind, .handle = handle, .buffer = buffer, .length = size};
}

static inline void close_handle(world *w, mr_handle handle)
{
    CHECK_EQ(perform(w, (mr_request){.kind = MR_CLOSE, .handle = handle}).result, 0);
}

/* A connection over the network; ends[0] has called. Takes four operations: two sockets, a connect, an accept. */
static inline void connection(world *w, mr_handle ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = MUST(mr_machine_socket(w->machine, AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(mr_machine_bind(w->machine, listener, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(mr_machine_listen(w->machine, listener, 1), 0);
    CHECK_EQ(mr_machine_getsockname(w->machine, listener, (struct sockaddr *)&address, &size), 0);
    ends[0] = adopt(w, MUST(mr_machine_socket(w->machine, AF_INET, SOCK_STREAM, 0)));
    mr_request connecting = transfer(MR_CONNECT, ends[0], &address, sizeof address);
    CHECK_EQ(perform(w, connecting).result, 0);
    mr_handle listening = adopt(w, listener);
    ends[1] = adopt(w, (int)perform(w, (mr_request){.kind = MR_ACCEPT, .handle = listening}).result);
    close_handle(w, listening);
}

enum { CONNECTION_OPERATIONS = 4 };

static inline void close_both(world *w, const mr_handle ends[2])
{
    close_handle(w, ends[0]);
    close_handle(w, ends[1]);
}

/* A new machine with one connection, with which most cases begin. */
typedef struct linked {
    world w;
    mr_handle ends[2];
} linked;

static inline linked new_linked(const mr_machine_plan *plan)
{
    linked l = {.w = new_world(plan)};
    connection(&l.w, l.ends);
    return l;
}

static inline void free_linked(linked *l)
{
    close_both(&l->w, l->ends);
    free_world(&l->w);
}

/* As new_linked, but the operation with this number on the connection has the fault. */
static inline linked new_faulty(mr_fault fault, uint64_t operation)
{
    mr_planned_fault planned = {CONNECTION_OPERATIONS + operation, fault};
    return new_linked(&(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1});
}

static inline int64_t send_some(linked *l, int end, const void *bytes, size_t size)
{
    return perform(&l->w, transfer(MR_SEND, l->ends[end], (void *)(uintptr_t)bytes, size)).result;
}

static inline int64_t receive_some(linked *l, int end, void *buffer, size_t size)
{
    return perform(&l->w, transfer(MR_RECV, l->ends[end], buffer, size)).result;
}

static inline int64_t send_byte(linked *l, int end)
{
    return send_some(l, end, "x", 1);
}

static inline int64_t receive_byte(linked *l, int end)
{
    char byte = 0;
    int64_t result = receive_some(l, end, &byte, 1);
    CHECK_EQ(byte, result == 1 ? 'x' : 0);
    return result;
}

static inline uint64_t elapsed_ns(const linked *l)
{
    return mr_machine_now_ns(l->w.machine) - MR_MACHINE_START_NS;
}

#define FAULT_NUMBER(function, fault) CASE_##function,
#define FAULT_ENTRY(function, fault)  {MR_FAULT_##fault, function},

static inline int bound_messenger(mr_machine *machine, struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int number = MUST(mr_machine_socket(machine, AF_INET, SOCK_DGRAM, 0));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(mr_machine_bind(machine, number, (struct sockaddr *)address, size), 0);
    CHECK_EQ(mr_machine_getsockname(machine, number, (struct sockaddr *)address, &size), 0);
    return number;
}

static inline mr_request at(mr_kind kind, mr_handle file, const void *buffer, size_t size, uint64_t offset)
{
    mr_request request = transfer(kind, file, (void *)(uintptr_t)buffer, size);
    request.offset = offset;
    return request;
}

#endif
