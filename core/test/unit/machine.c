/* machine.c: a simulated machine as the program on it sees it: its clock, its links, its faults, and that the same seed
 * gives the same run. */
#include "millrace_machine.h"
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define NEVER_NS UINT64_MAX

/* A machine, and a loop on it. */
typedef struct world {
    mr_machine *machine;
    mr_group *group;
    mr_loop *loop;
    mr_completion last; /* the latest completion */
    int arrived;        /* how many have come since this was set to 0 */
} world;

static world new_world(const mr_machine_plan *plan)
{
    world w = {0};
    CHECK_EQ(mr_machine_create(plan, &w.machine), 0);
    CHECK_EQ(mr_machine_group(w.machine, &w.group), 0);
    CHECK_EQ(mr_loop_create(w.group, &w.loop), 0);
    return w;
}

/* Everything that was opened must have been closed, and everything sent, received or dropped. */
static void free_world(world *w)
{
    mr_machine_state state;
    mr_machine_inspect(w->machine, &state);
    CHECK_EQ(state.open_descriptors, 0);
    CHECK_EQ(state.buffered_bytes, 0);
    mr_loop_destroy(w->loop);
    mr_group_destroy(w->group);
    mr_machine_destroy(w->machine);
}

static int poll_loop(world *w)
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

/* Until so many completions have come. */
static void run_until(world *w, int count)
{
    NOTE_PLACE();
    w->arrived = 0;
    while (w->arrived < count)
        if (poll_loop(w) == 0 && mr_loop_prepare_wait(w->loop))
            mr_loop_wait(w->loop);
}

static mr_completion perform(world *w, mr_request request)
{
    mr_completion completion;
    if (mr_loop_submit(w->loop, &request, &completion) == MR_DONE)
        return completion;
    run_until(w, 1);
    CHECK_EQ(w->last.token, completion.token);
    return w->last;
}

static mr_token start(world *w, mr_request request)
{
    mr_completion completion;
    CHECK_EQ(mr_loop_submit(w->loop, &request, &completion), MR_PENDING);
    return completion.token;
}

static mr_handle adopt(world *w, int descriptor)
{
    mr_handle handle;
    CHECK_GE(descriptor, MR_MACHINE_FIRST);
    CHECK_EQ(mr_group_adopt(w->group, descriptor, &handle), 0);
    return handle;
}

static mr_request transfer(mr_kind kind, mr_handle handle, void *buffer, size_t size)
{
    return (mr_request){.kind = kind, .handle = handle, .buffer = buffer, .length = size};
}

static void close_handle(world *w, mr_handle handle)
{
    CHECK_EQ(perform(w, (mr_request){.kind = MR_CLOSE, .handle = handle}).result, 0);
}

/* A connection over the network; ends[0] has called. Takes four operations: two sockets, a connect, an accept. */
static void connection(world *w, mr_handle ends[2])
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

static void close_both(world *w, mr_handle ends[2])
{
    close_handle(w, ends[0]);
    close_handle(w, ends[1]);
}

/* ------------------------------------------------------------------------------------------------ time and links --- */

static void time_jumps_to_what_is_next(uintptr_t unused)
{
    world w = new_world(&(mr_machine_plan){0});
    const uint64_t day_ns = UINT64_C(86400000) * NS_PER_MS;
    (void)unused;
    CHECK_EQ(mr_group_now_ns(w.group), MR_MACHINE_START_NS);
    for (uint64_t i = 1; i <= 100; i++) {
        uint64_t deadline_ns = MR_MACHINE_START_NS + i * day_ns;
        CHECK_EQ(perform(&w, (mr_request){.kind = MR_TIMEOUT, .deadline_ns = deadline_ns}).result, 0);
        CHECK_GE(mr_machine_now_ns(w.machine), deadline_ns);
        CHECK_LE(mr_machine_now_ns(w.machine), deadline_ns + NS_PER_MS);
    }
    CHECK_EQ(mr_machine_advance(w.machine, NEVER_NS), 0); /* nothing more will happen */
    free_world(&w);
}

static void a_link_has_latency_and_a_rate(uintptr_t unused)
{
    world w = new_world(&(mr_machine_plan){.latency_ns = 40 * NS_PER_MS, .bytes_per_second = 1000000});
    mr_handle ends[2];
    static char sent[100000], received[100000];
    (void)unused;
    connection(&w, ends);
    CHECK_EQ(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS + 80 * NS_PER_MS); /* there and back */
    uint64_t begin_ns = mr_machine_now_ns(w.machine);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], sent, 50000)).result, 50000);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], sent, 50000)).result, 50000);
    CHECK_EQ(mr_machine_now_ns(w.machine), begin_ns);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], received, sizeof received)).result, 50000);
    CHECK_EQ(mr_machine_now_ns(w.machine), begin_ns + 90 * NS_PER_MS);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], received, sizeof received)).result, 50000);
    CHECK_EQ(mr_machine_now_ns(w.machine), begin_ns + 140 * NS_PER_MS);
    close_both(&w, ends);
    free_world(&w);
}

/* ----------------------------------------------------------------------------------------------------- faults --- */

/* A connection on a machine that has this fault for the first operation on it. */
static world faulty_world(mr_fault fault, mr_handle ends[2])
{
    mr_planned_fault planned = {CONNECTION_OPERATIONS + 1, fault};
    world w = new_world(&(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1});
    connection(&w, ends);
    return w;
}

static void a_short_transfer(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_SHORT, ends);
    char text[100] = "a text", received[100];
    (void)unused;
    int64_t sent = perform(&w, transfer(MR_SEND, ends[0], text, sizeof text)).result;
    CHECK_GT(sent, 0);
    CHECK_LE(sent, 8);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], received, sizeof received)).result, sent);
    CHECK_MEMORY(received, text, (size_t)sent);
    close_both(&w, ends);
    free_world(&w);
}

static void a_delayed_completion(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_DELAY, ends);
    char byte = 'x';
    (void)unused;
    mr_token sending = start(&w, transfer(MR_SEND, ends[0], &byte, 1));
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, 1); /* it has happened all the same */
    mr_loop_cancel(w.loop, sending);                                       /* and cannot be undone */
    run_until(&w, 1);
    CHECK_EQ(w.last.token, sending);
    CHECK_EQ(w.last.result, 1);
    CHECK_GT(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS);
    close_both(&w, ends);
    free_world(&w);
}

/* A lent buffer belongs to the operation until the end is reported, and what is short, late or cancelled loses none. */
static void lent_buffers_meet_faults(uintptr_t unused)
{
    const mr_fault faults[] = {MR_FAULT_SHORT, MR_FAULT_DELAY, MR_FAULT_INTERRUPTED, MR_FAULT_LATE_CANCEL};
    char text[100] = "a text";
    (void)unused;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        mr_handle ends[2];
        mr_planned_fault planned = {CONNECTION_OPERATIONS + 2, faults[i]};
        world w = new_world(&(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1});
        connection(&w, ends);
        CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], text, sizeof text)).result, sizeof text);
        uint64_t received = 0;
        while (received < sizeof text) {
            mr_request lent = transfer(MR_RECV, ends[1], NULL, sizeof text);
            lent.flags = MR_LENT;
            mr_completion completion = perform(&w, lent);
            CHECK_GT(completion.result, 0);
            CHECK_EQ(completion.buffer->length, completion.result);
            CHECK_MEMORY(completion.buffer->bytes, text + received, (size_t)completion.result);
            CHECK(received || faults[i] != MR_FAULT_SHORT || completion.result <= 8);
            received += (uint64_t)completion.result;
            mr_loop_give_back(w.loop, completion.buffer);
        }
        CHECK_EQ(mr_machine_now_ns(w.machine) > MR_MACHINE_START_NS, faults[i] == MR_FAULT_DELAY);
        close_both(&w, ends);
        free_world(&w);
    }
}

/* A length of time begins on the machine's clock, when the waiting begins. */
static void lengths_of_time_are_the_machines(uintptr_t unused)
{
    mr_handle ends[2];
    char byte;
    (void)unused;
    world w = new_world(&(mr_machine_plan){0});
    connection(&w, ends);
    mr_machine_sleep(w.machine, 70 * NS_PER_MS);
    mr_request receiving = transfer(MR_RECV, ends[0], &byte, 1);
    receiving.flags = MR_WITHIN;
    receiving.deadline_ns = 5000 * NS_PER_MS;
    CHECK_EQ(perform(&w, receiving).result, -ETIMEDOUT);
    CHECK_GE(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS + 5070 * NS_PER_MS);
    CHECK_LE(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS + 5071 * NS_PER_MS);
    close_both(&w, ends);
    free_world(&w);
}

static void a_reset(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_RESET, ends);
    char byte = 'x';
    (void)unused;
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, -ECONNRESET);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, -EPIPE);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, -ECONNRESET);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, 0);
    close_both(&w, ends);
    free_world(&w);
}

static void a_reset_afterwards(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_RESET_AFTER, ends);
    char byte = 'x';
    (void)unused;
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, 1);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, -ECONNRESET);
    close_both(&w, ends);
    free_world(&w);
}

static void a_half_close(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_HALF_CLOSE, ends);
    char byte = 'x';
    (void)unused;
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, -EPIPE);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, 0);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[1], &byte, 1)).result, 1); /* the other direction goes on */
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[0], &byte, 1)).result, 1);
    close_both(&w, ends);
    free_world(&w);
}

static void a_stall(uintptr_t unused)
{
    mr_handle ends[2];
    world w = faulty_world(MR_FAULT_STALL, ends);
    char byte = 'x';
    (void)unused;
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, 1);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, 1);
    CHECK_EQ(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS + 30000 * NS_PER_MS);
    close_both(&w, ends);
    free_world(&w);
}

static void scarce_buffers_and_interruptions(uintptr_t unused)
{
    mr_handle ends[2];
    char byte = 'x';
    mr_counters counters;
    (void)unused;
    world w = faulty_world(MR_FAULT_NO_BUFFERS, ends);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, -ENOBUFS);
    close_both(&w, ends);
    free_world(&w);
    w = faulty_world(MR_FAULT_INTERRUPTED, ends);
    CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &byte, 1)).result, 1); /* nobody sees an EINTR */
    mr_loop_counters(w.loop, &counters);
    CHECK_EQ(counters.resubmissions, 1);
    CHECK_EQ(perform(&w, transfer(MR_RECV, ends[1], &byte, 1)).result, 1);
    close_both(&w, ends);
    free_world(&w);
}

static void scarce_descriptors(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_NO_DESCRIPTORS}, {2, MR_FAULT_NO_BUFFERS},
                                  {6, MR_FAULT_NO_DESCRIPTORS}};
    world w = new_world(&(mr_machine_plan){.planned = planned, .planned_count = 3});
    mr_handle ends[2];
    (void)unused;
    CHECK_EQ(mr_machine_socket(w.machine, AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_EQ(mr_machine_socket(w.machine, AF_INET, SOCK_STREAM, 0), -ENOBUFS);
    connection(&w, ends); /* its accept, operation 6, tries again after 10 ms */
    CHECK_GE(mr_machine_now_ns(w.machine), MR_MACHINE_START_NS + 10 * NS_PER_MS);
    close_both(&w, ends);
    free_world(&w);
}

/* A cancellation and bytes are on their way at the same time: either wins, and no byte is lost. */
static void a_late_cancellation(uintptr_t unused)
{
    mr_handle ends[2];
    char byte = 0, sent = 'x';
    (void)unused;
    for (int bytes_come = 0; bytes_come < 2; bytes_come++) {
        world w = faulty_world(MR_FAULT_LATE_CANCEL, ends);
        mr_token receiving = start(&w, transfer(MR_RECV, ends[1], &byte, 1));
        mr_loop_cancel(w.loop, receiving);
        CHECK_EQ(poll_loop(&w), 0);
        if (bytes_come)
            CHECK_EQ(perform(&w, transfer(MR_SEND, ends[0], &sent, 1)).result, 1);
        run_until(&w, 1);
        CHECK_EQ(w.last.token, receiving);
        CHECK_EQ(w.last.result, bytes_come ? 1 : -ECANCELED);
        CHECK_EQ(byte, bytes_come ? 'x' : 0);
        mr_machine_sleep(w.machine, 100 * NS_PER_MS); /* the cancellation has lost, and does nothing */
        CHECK_EQ(poll_loop(&w), 0);
        close_both(&w, ends);
        free_world(&w);
    }
}

static void completions_come_in_any_order(uintptr_t unused)
{
    enum { COUNT = 8 };
    world w = new_world(&(mr_machine_plan){.seed = 3, .reorders = true});
    mr_handle ends[COUNT][2];
    char bytes[COUNT], byte = 'x';
    mr_token tokens[COUNT];
    mr_completion completions[COUNT];
    int out_of_order = 0;
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        connection(&w, ends[i]);
        tokens[i] = start(&w, transfer(MR_RECV, ends[i][1], &bytes[i], 1));
    }
    poll_loop(&w);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(perform(&w, transfer(MR_SEND, ends[i][0], &byte, 1)).result, 1);
    CHECK_EQ(mr_loop_poll(w.loop, completions, COUNT), COUNT);
    for (int i = 0; i < COUNT; i++) {
        out_of_order += completions[i].token != tokens[i];
        mr_loop_release(w.loop, completions[i].token);
        close_both(&w, ends[i]);
    }
    CHECK_GT(out_of_order, 0);
    free_world(&w);
}

/* ----------------------------------------------------------------------------------------------- determinism --- */

enum { PAIRS = 10, ROUNDS = 400 };

/* Echoes between pairs, with every fault there is; the trace of it, to be freed. */
static char *trace_of_a_run(uint64_t seed, size_t *length)
{
    mr_machine_plan plan = {.seed = seed, .latency_ns = NS_PER_MS, .reorders = true, .traces = true};
    for (int i = 1; i < MR_FAULT_COUNT; i++)
        plan.per_million[i] = i == MR_FAULT_NO_DESCRIPTORS || i == MR_FAULT_NO_BUFFERS ? 0 : 20000;
    world w = new_world(&plan);
    mr_handle ends[PAIRS][2];
    static char buffers[2 * PAIRS][100];
    uint64_t random = seed + 1;
    int in_flight = 0;
    for (int i = 0; i < PAIRS; i++)
        connection(&w, ends[i]);
    for (int i = 0; i < ROUNDS; i++) {
        int place = (int)(harness_random(&random) % (2 * PAIRS));
        mr_kind kind = harness_random(&random) % 2 ? MR_SEND : MR_RECV;
        mr_request request = transfer(kind, ends[place / 2][place % 2], buffers[place], 100);
        mr_completion completion;
        request.deadline_ns = mr_machine_now_ns(w.machine) + harness_random(&random) % (20 * NS_PER_MS) + 1;
        in_flight += mr_loop_submit(w.loop, &request, &completion) == MR_PENDING;
        w.arrived = 0;
        poll_loop(&w);
        in_flight -= w.arrived;
    }
    run_until(&w, in_flight);
    for (int i = 0; i < PAIRS; i++)
        close_both(&w, ends[i]);
    const char *trace = mr_machine_trace(w.machine, length);
    char *copy = malloc(*length);
    memcpy(copy, trace, *length);
    free_world(&w);
    return copy;
}

static void the_same_seed_gives_the_same_trace(uintptr_t unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < harness_rounds(200); seed++) {
        size_t length, again_length, other_length;
        char *trace = trace_of_a_run(seed, &length);
        char *again = trace_of_a_run(seed, &again_length);
        char *other = trace_of_a_run(seed + 1000, &other_length);
        CHECK_GT(length, 10000);
        CHECK_EQ(length, again_length);
        CHECK_MEMORY(again, trace, length);
        CHECK(length != other_length || memcmp(trace, other, length) != 0);
        free(trace);
        free(again);
        free(other);
    }
}

const harness_test machine_tests[] = {
    UNIT(machine, time_jumps_to_what_is_next),
    UNIT(machine, a_link_has_latency_and_a_rate),
    UNIT(machine, a_short_transfer),
    UNIT(machine, a_delayed_completion),
    UNIT(machine, lent_buffers_meet_faults),
    UNIT(machine, lengths_of_time_are_the_machines),
    UNIT(machine, a_reset),
    UNIT(machine, a_reset_afterwards),
    UNIT(machine, a_half_close),
    UNIT(machine, a_stall),
    UNIT(machine, scarce_buffers_and_interruptions),
    UNIT(machine, scarce_descriptors),
    UNIT(machine, a_late_cancellation),
    UNIT(machine, completions_come_in_any_order),
    UNIT(machine, the_same_seed_gives_the_same_trace),
    {0},
};
