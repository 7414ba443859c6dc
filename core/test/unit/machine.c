/* machine.c: a simulated machine as the program on it sees it: its clock, its links, its faults, and that the same seed
 * gives the same run. */
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

/* Until this many completions have come. */
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

static void close_both(world *w, const mr_handle ends[2])
{
    close_handle(w, ends[0]);
    close_handle(w, ends[1]);
}

/* ----------------------------------------------------------------------------------------------------- fixture --- */

/* A connection on a machine of its own: what most cases begin with. */
typedef struct linked {
    world w;
    mr_handle ends[2];
} linked;

static linked new_linked(const mr_machine_plan *plan)
{
    linked l = {.w = new_world(plan)};
    connection(&l.w, l.ends);
    return l;
}

static void free_linked(linked *l)
{
    close_both(&l->w, l->ends);
    free_world(&l->w);
}

/* The same, where the operation of this number on the connection meets the fault. */
static linked new_faulty(mr_fault fault, uint64_t operation)
{
    mr_planned_fault planned = {CONNECTION_OPERATIONS + operation, fault};
    return new_linked(&(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1});
}

static int64_t send_some(linked *l, int end, const void *bytes, size_t size)
{
    return perform(&l->w, transfer(MR_SEND, l->ends[end], (void *)(uintptr_t)bytes, size)).result;
}

static int64_t receive_some(linked *l, int end, void *buffer, size_t size)
{
    return perform(&l->w, transfer(MR_RECV, l->ends[end], buffer, size)).result;
}

static int64_t send_byte(linked *l, int end)
{
    return send_some(l, end, "x", 1);
}

static int64_t receive_byte(linked *l, int end)
{
    char byte = 0;
    int64_t result = receive_some(l, end, &byte, 1);
    CHECK_EQ(byte, result == 1 ? 'x' : 0);
    return result;
}

static uint64_t elapsed_ns(const linked *l)
{
    return mr_machine_now_ns(l->w.machine) - MR_MACHINE_START_NS;
}

/* ----------------------------------------------------------------------------------------------- time and links --- */

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
    linked l = new_linked(&(mr_machine_plan){.latency_ns = 40 * NS_PER_MS, .bytes_per_second = 1000000});
    static char sent[100000], received[100000];
    (void)unused;
    CHECK_EQ(elapsed_ns(&l), 80 * NS_PER_MS); /* there and back */
    CHECK_EQ(send_some(&l, 0, sent, 50000), 50000);
    CHECK_EQ(send_some(&l, 0, sent, 50000), 50000);
    CHECK_EQ(elapsed_ns(&l), 80 * NS_PER_MS);
    CHECK_EQ(receive_some(&l, 1, received, sizeof received), 50000);
    CHECK_EQ(elapsed_ns(&l), 170 * NS_PER_MS);
    CHECK_EQ(receive_some(&l, 1, received, sizeof received), 50000);
    CHECK_EQ(elapsed_ns(&l), 220 * NS_PER_MS);
    free_linked(&l);
}

/* A length of time begins on the machine's clock, when the waiting begins. */
static void lengths_of_time_are_the_machines(uintptr_t unused)
{
    char byte;
    (void)unused;
    linked l = new_linked(&(mr_machine_plan){0});
    mr_machine_sleep(l.w.machine, 70 * NS_PER_MS);
    mr_request receiving = transfer(MR_RECV, l.ends[0], &byte, 1);
    receiving.flags = MR_WITHIN;
    receiving.deadline_ns = 5000 * NS_PER_MS;
    CHECK_EQ(perform(&l.w, receiving).result, -ETIMEDOUT);
    CHECK_GE(elapsed_ns(&l), 5070 * NS_PER_MS);
    CHECK_LE(elapsed_ns(&l), 5071 * NS_PER_MS);
    free_linked(&l);
}

/* ----------------------------------------------------------------------------------------------------- faults --- */

/* Each case gets a connection whose first operation meets the fault that stands beside its name in FAULT_CASES. */

static void a_short_transfer(linked *l)
{
    char text[100] = "a text", received[100];
    int64_t sent = send_some(l, 0, text, sizeof text);
    CHECK_GT(sent, 0);
    CHECK_LE(sent, 8);
    CHECK_EQ(receive_some(l, 1, received, sizeof received), sent);
    CHECK_MEMORY(received, text, (size_t)sent);
}

static void a_delayed_completion(linked *l)
{
    char byte = 'x';
    mr_token sending = start(&l->w, transfer(MR_SEND, l->ends[0], &byte, 1));
    CHECK_EQ(receive_byte(l, 1), 1);    /* it has happened all the same */
    mr_loop_cancel(l->w.loop, sending); /* and cannot be undone */
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, sending);
    CHECK_EQ(l->w.last.result, 1);
    CHECK_GT(elapsed_ns(l), 0);
}

static void a_reset(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -ECONNRESET);
    CHECK_EQ(send_byte(l, 0), -EPIPE);
    CHECK_EQ(receive_byte(l, 1), -ECONNRESET);
    CHECK_EQ(receive_byte(l, 1), 0);
}

static void a_reset_afterwards(linked *l)
{
    CHECK_EQ(send_byte(l, 0), 1);
    CHECK_EQ(receive_byte(l, 1), -ECONNRESET);
}

static void a_half_close(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -EPIPE);
    CHECK_EQ(receive_byte(l, 1), 0);
    CHECK_EQ(send_byte(l, 1), 1); /* the other direction goes on */
    CHECK_EQ(receive_byte(l, 0), 1);
}

static void a_stall(linked *l)
{
    CHECK_EQ(send_byte(l, 0), 1);
    CHECK_EQ(receive_byte(l, 1), 1);
    CHECK_EQ(elapsed_ns(l), 30000 * NS_PER_MS);
}

static void scarce_buffers(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -ENOBUFS);
}

static void an_interruption(linked *l)
{
    mr_counters counters;
    CHECK_EQ(send_byte(l, 0), 1); /* nobody sees an EINTR */
    mr_loop_counters(l->w.loop, &counters);
    CHECK_EQ(counters.resubmissions, 1);
    CHECK_EQ(receive_byte(l, 1), 1);
}

static mr_token cancelled_receive(linked *l, char *byte)
{
    mr_token receiving = start(&l->w, transfer(MR_RECV, l->ends[1], byte, 1));
    mr_loop_cancel(l->w.loop, receiving);
    CHECK_EQ(poll_loop(&l->w), 0);
    return receiving;
}

static void a_late_cancellation(linked *l)
{
    char byte = 0;
    mr_token receiving = cancelled_receive(l, &byte);
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, receiving);
    CHECK_EQ(l->w.last.result, -ECANCELED);
    CHECK_EQ(byte, 0);
}

/* A cancellation and bytes are on their way at the same time: the bytes win, and none is lost. */
static void a_cancellation_that_loses(linked *l)
{
    char byte = 0;
    mr_token receiving = cancelled_receive(l, &byte);
    CHECK_EQ(send_byte(l, 0), 1);
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, receiving);
    CHECK_EQ(l->w.last.result, 1);
    CHECK_EQ(byte, 'x');
    mr_machine_sleep(l->w.machine, 100 * NS_PER_MS);
    CHECK_EQ(poll_loop(&l->w), 0); /* when it comes, it does nothing */
}

#define FAULT_CASES(X)                  \
    X(a_short_transfer, SHORT)          \
    X(a_delayed_completion, DELAY)      \
    X(a_reset, RESET)                   \
    X(a_reset_afterwards, RESET_AFTER)  \
    X(a_half_close, HALF_CLOSE)         \
    X(a_stall, STALL)                   \
    X(scarce_buffers, NO_BUFFERS)       \
    X(an_interruption, INTERRUPTED)     \
    X(a_late_cancellation, LATE_CANCEL) \
    X(a_cancellation_that_loses, LATE_CANCEL)

#define FAULT_NUMBER(function, fault) CASE_##function,
#define FAULT_ENTRY(function, fault)  {MR_FAULT_##fault, function},
#define FAULT_UNIT(function, fault)   {"machine/" #function, meet_fault, CASE_##function},

enum { FAULT_CASES(FAULT_NUMBER) };

static void meet_fault(uintptr_t number)
{
    static const struct {
        mr_fault fault;
        void (*run)(linked *l);
    } cases[] = {FAULT_CASES(FAULT_ENTRY)};
    linked l = new_faulty(cases[number].fault, 1);
    cases[number].run(&l);
    free_linked(&l);
}

/* A borrowed buffer belongs to the operation until the end is reported, and what is short or late loses none. */
static void borrowed_buffers_meet_faults(uintptr_t fault)
{
    char text[100] = "a text";
    linked l = new_faulty((mr_fault)fault, 2);
    CHECK_EQ(send_some(&l, 0, text, sizeof text), sizeof text);
    uint64_t received = 0;
    while (received < sizeof text) {
        mr_request borrowed = transfer(MR_RECV, l.ends[1], NULL, sizeof text);
        borrowed.flags = MR_BORROW;
        mr_completion completion = perform(&l.w, borrowed);
        CHECK_GT(completion.result, 0);
        CHECK_EQ(completion.buffer->length, completion.result);
        CHECK_MEMORY(completion.buffer->bytes, text + received, (size_t)completion.result);
        CHECK(received || fault != MR_FAULT_SHORT || completion.result <= 8);
        received += (uint64_t)completion.result;
        mr_loop_give_back(l.w.loop, completion.buffer);
    }
    CHECK_EQ(elapsed_ns(&l) > 0, fault == MR_FAULT_DELAY);
    free_linked(&l);
}

/* That nothing could be sent is a result of its own kind, which a delay must keep. */
static void a_delayed_send_then_receive_that_finds_no_room(uintptr_t unused)
{
    mr_planned_fault planned = {CONNECTION_OPERATIONS + 2, MR_FAULT_DELAY};
    linked l = new_linked(&(mr_machine_plan){.seed = 5, .buffer_bytes = 4, .planned = &planned, .planned_count = 1});
    (void)unused;
    CHECK_EQ(send_some(&l, 0, "full", 4), 4);
    mr_buffer *buffer = mr_loop_borrow(l.w.loop);
    CHECK(buffer);
    mr_request request = {.kind = MR_SEND_THEN_RECEIVE, .handle = l.ends[0], .buffer = buffer, .length = 10};
    CHECK_EQ(mr_sent_only(perform(&l.w, request).result), 0);
    CHECK_GT(elapsed_ns(&l), 0);
    mr_loop_give_back(l.w.loop, buffer);
    free_linked(&l);
}

static void scarce_descriptors(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_NO_DESCRIPTORS}, {2, MR_FAULT_NO_BUFFERS}, {6, MR_FAULT_NO_DESCRIPTORS}};
    linked l = {.w = new_world(&(mr_machine_plan){.planned = planned, .planned_count = 3})};
    (void)unused;
    CHECK_EQ(mr_machine_socket(l.w.machine, AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_EQ(mr_machine_socket(l.w.machine, AF_INET, SOCK_STREAM, 0), -ENOBUFS);
    connection(&l.w, l.ends); /* its accept, operation 6, tries again after 10 ms */
    CHECK_GE(elapsed_ns(&l), 10 * NS_PER_MS);
    free_linked(&l);
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

/* -------------------------------------------------------------------------------------------------- datagrams --- */

/* Two sockets that know each other's address; ends[0] has ends[1] as its peer. */
typedef struct messengers {
    world w;
    int numbers[2];
    mr_handle ends[2];
    struct sockaddr_in addresses[2];
} messengers;

static int bound_messenger(mr_machine *machine, struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int number = MUST(mr_machine_socket(machine, AF_INET, SOCK_DGRAM, 0));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(mr_machine_bind(machine, number, (struct sockaddr *)address, size), 0);
    CHECK_EQ(mr_machine_getsockname(machine, number, (struct sockaddr *)address, &size), 0);
    return number;
}

/* The first datagram is the machine's operation 4: two sockets come before it, and the send itself. */
static messengers new_messengers(const mr_machine_plan *plan)
{
    messengers m = {.w = new_world(plan)};
    for (int i = 0; i < 2; i++)
        m.numbers[i] = bound_messenger(m.w.machine, &m.addresses[i]);
    CHECK_EQ(mr_machine_connect(m.w.machine, m.numbers[0], (struct sockaddr *)&m.addresses[1], sizeof *m.addresses), 0);
    for (int i = 0; i < 2; i++)
        m.ends[i] = adopt(&m.w, m.numbers[i]);
    return m;
}

static messengers new_faulty_messengers(mr_fault fault)
{
    mr_planned_fault planned = {4, fault};
    return new_messengers(&(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1});
}

static void free_messengers(messengers *m)
{
    close_both(&m->w, m->ends);
    free_world(&m->w);
}

static void post(messengers *m, const char *text)
{
    size_t size = strlen(text);
    CHECK_EQ(perform(&m->w, transfer(MR_SEND, m->ends[0], (void *)(uintptr_t)text, size)).result, size);
}

/* Waits for the next message. */
static void check_next(messengers *m, const char *text)
{
    char received[100];
    CHECK_EQ(perform(&m->w, transfer(MR_RECV, m->ends[1], received, sizeof received)).result, strlen(text));
    CHECK_MEMORY(received, text, strlen(text));
}

static void check_no_more(messengers *m)
{
    mr_machine_sleep(m->w.machine, 1000 * NS_PER_MS);
    CHECK_EQ(mr_machine_readable(m->w.machine, m->numbers[1]), -EAGAIN);
}

static void datagrams_stay_apart(uintptr_t unused)
{
    messengers m = new_messengers(&(mr_machine_plan){.latency_ns = 40 * NS_PER_MS});
    char start_of_it[3];
    (void)unused;
    post(&m, "one");
    post(&m, "");
    post(&m, "another");
    check_next(&m, "one");
    CHECK_EQ(mr_machine_now_ns(m.w.machine), MR_MACHINE_START_NS + 40 * NS_PER_MS);
    check_next(&m, "");
    CHECK_EQ(perform(&m.w, transfer(MR_RECV, m.ends[1], start_of_it, 3)).result, 3); /* the rest is cut off */
    check_no_more(&m);
    free_messengers(&m);
}

static void datagrams_have_addresses(uintptr_t unused)
{
    messengers m = new_messengers(&(mr_machine_plan){0});
    mr_machine *machine = m.w.machine;
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    char bytes[10] = "hello";
    struct iovec five = {bytes, 5}, ten = {bytes, 10};
    int stranger = MUST(mr_machine_socket(machine, AF_INET, SOCK_DGRAM, 0));
    (void)unused;
    CHECK_EQ(mr_machine_send_to(machine, m.numbers[1], &five, 1, NULL, 0), -EDESTADDRREQ);
    post(&m, "to b");
    CHECK_EQ(mr_machine_receive_from(machine, m.numbers[1], &ten, 1, (struct sockaddr *)&from, &size), 4);
    CHECK_MEMORY(&from, &m.addresses[0], sizeof from);
    CHECK_EQ(mr_machine_send_to(machine, m.numbers[1], &five, 1, (struct sockaddr *)&from, size), 5);
    CHECK_EQ(mr_machine_send_to(machine, stranger, &five, 1, (struct sockaddr *)&from, size), 5);
    CHECK_EQ(mr_machine_receive_from(machine, m.numbers[0], &ten, 1, (struct sockaddr *)&from, &size), 5);
    CHECK_MEMORY(&from, &m.addresses[1], sizeof from);
    CHECK_EQ(mr_machine_readable(machine, m.numbers[0]),
             -EAGAIN); /* a socket that has a peer receives nothing from others */
    CHECK_EQ(mr_machine_close(machine, stranger), 0);
    free_messengers(&m);
}

static void nobody_takes_a_datagram(uintptr_t unused)
{
    messengers m = new_messengers(&(mr_machine_plan){.buffer_bytes = 10});
    char bytes[10] = {0};
    struct iovec ten = {bytes, 10};
    int stranger = MUST(mr_machine_socket(m.w.machine, AF_INET, SOCK_DGRAM, 0));
    (void)unused;
    post(&m, "eight by");
    post(&m, "no room for this");
    check_next(&m, "eight by");
    check_no_more(&m);
    close_handle(&m.w, m.ends[1]);
    post(&m, "into the dark");
    CHECK_EQ(perform(&m.w, transfer(MR_SEND, m.ends[0], bytes, 1)).result, -ECONNREFUSED);
    /* Who has no peer does not hear of it. */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(
            mr_machine_send_to(m.w.machine, stranger, &ten, 1, (struct sockaddr *)&m.addresses[1], sizeof *m.addresses),
            10);
    CHECK_EQ(mr_machine_close(m.w.machine, stranger), 0);
    close_handle(&m.w, m.ends[0]);
    free_world(&m.w);
}

static void a_lost_datagram(messengers *m)
{
    post(m, "one");
    post(m, "two");
    check_next(m, "two");
}

static void a_doubled_datagram(messengers *m)
{
    post(m, "one");
    post(m, "two");
    check_next(m, "one");
    check_next(m, "one");
    check_next(m, "two");
}

static void an_overtaken_datagram(messengers *m)
{
    post(m, "one");
    post(m, "two");
    check_next(m, "two");
    CHECK_EQ(mr_machine_now_ns(m->w.machine), MR_MACHINE_START_NS);
    check_next(m, "one");
    CHECK_GT(mr_machine_now_ns(m->w.machine), MR_MACHINE_START_NS);
}

#define DATAGRAM_CASES(X)              \
    X(a_lost_datagram, LOSS)           \
    X(a_doubled_datagram, DUPLICATION) \
    X(an_overtaken_datagram, OVERTAKEN)

#define DATAGRAM_UNIT(function, fault) {"machine/" #function, meet_fault_on_the_way, CASE_##function},

enum { DATAGRAM_CASES(FAULT_NUMBER) };

static void meet_fault_on_the_way(uintptr_t number)
{
    static const struct {
        mr_fault fault;
        void (*run)(messengers *m);
    } cases[] = {DATAGRAM_CASES(FAULT_ENTRY)};
    messengers m = new_faulty_messengers(cases[number].fault);
    cases[number].run(&m);
    check_no_more(&m);
    free_messengers(&m);
}

/* Half a datagram, or the reset of a connection that there is not, would be no fault but a mistake. */
static void faults_of_connections_spare_datagrams(uintptr_t unused)
{
    mr_machine_plan plan = {.seed = 5};
    (void)unused;
    plan.per_million[MR_FAULT_SHORT] = plan.per_million[MR_FAULT_RESET] = plan.per_million[MR_FAULT_HALF_CLOSE] =
        300000;
    messengers m = new_messengers(&plan);
    for (int i = 0; i < 100; i++) {
        post(&m, "a message of some length");
        check_next(&m, "a message of some length");
    }
    free_messengers(&m);
}

/* ------------------------------------------------------------------------------------------------------ files --- */

/* A machine with an empty file, which is its first operation; the one after it meets the fault. */
typedef struct stored {
    world w;
    mr_handle file;
} stored;

static stored new_stored(mr_fault fault, uint64_t disk_bytes)
{
    mr_planned_fault planned = {2, fault};
    stored s = {.w = new_world(
                    &(mr_machine_plan){.seed = 5, .planned = &planned, .planned_count = 1, .disk_bytes = disk_bytes})};
    s.file = adopt(&s.w, MUST(mr_machine_open(s.w.machine, "a file", O_RDWR | O_CREAT | O_EXCL)));
    return s;
}

static void free_stored(stored *s)
{
    close_handle(&s->w, s->file);
    CHECK_EQ(mr_machine_unlink(s->w.machine, "a file"), 0);
    free_world(&s->w);
}

static mr_request at(mr_kind kind, mr_handle file, const void *buffer, size_t size, uint64_t offset)
{
    mr_request request = transfer(kind, file, (void *)(uintptr_t)buffer, size);
    request.offset = offset;
    return request;
}

static int64_t write_at(stored *s, const void *data, size_t size, uint64_t offset)
{
    return perform(&s->w, at(MR_WRITE_FILE, s->file, data, size, offset)).result;
}

static int64_t read_at(stored *s, void *buffer, size_t size, uint64_t offset)
{
    return perform(&s->w, at(MR_READ_FILE, s->file, buffer, size, offset)).result;
}

static int64_t sync_file(stored *s)
{
    return perform(&s->w, transfer(MR_SYNC_FILE, s->file, NULL, 0)).result;
}

/* Each case gets an empty file of which the first operation meets the fault beside its name in FILE_CASES. */

static void a_short_write(stored *s)
{
    char text[100] = "a text", again[100];
    int64_t written = write_at(s, text, sizeof text, 0);
    CHECK_GT(written, 0);
    CHECK_LE(written, 8);
    CHECK_EQ(read_at(s, again, sizeof again, 0), written);
    CHECK_MEMORY(again, text, (size_t)written);
}

static void a_short_write_of_all(stored *s)
{
    char text[100] = "a text", again[100];
    mr_request all = at(MR_WRITE_FILE, s->file, text, sizeof text, 0);
    all.flags = MR_ALL;
    CHECK_EQ(perform(&s->w, all).result, sizeof text);
    CHECK_EQ(read_at(s, again, sizeof again, 0), sizeof again);
    CHECK_MEMORY(again, text, sizeof text);
}

static void a_delayed_write_is_overtaken(stored *s)
{
    char byte = 0;
    mr_token writing = start(&s->w, at(MR_WRITE_FILE, s->file, "x", 1, 0));
    CHECK_EQ(write_at(s, "yz", 2, 1), 2);
    CHECK_EQ(read_at(s, &byte, 1, 2), 1);
    CHECK_EQ(byte, 'z');
    CHECK_EQ(mr_machine_now_ns(s->w.machine), MR_MACHINE_START_NS);
    run_until(&s->w, 1);
    CHECK_EQ(s->w.last.token, writing);
    CHECK_EQ(s->w.last.result, 1);
    CHECK_GT(mr_machine_now_ns(s->w.machine), MR_MACHINE_START_NS);
}

static void an_interrupted_write(stored *s)
{
    mr_counters counters;
    CHECK_EQ(write_at(s, "x", 1, 0), 1);
    mr_loop_counters(s->w.loop, &counters);
    CHECK_EQ(counters.resubmissions, 1);
}

static void a_disk_that_is_full_once(stored *s)
{
    char byte;
    CHECK_EQ(write_at(s, "x", 1, 0), -ENOSPC);
    CHECK_EQ(read_at(s, &byte, 1, 0), 0); /* nothing was written */
    CHECK_EQ(write_at(s, "x", 1, 0), 1);
    CHECK_EQ(sync_file(s), 0);
}

static void a_disk_that_is_found_full_late(stored *s)
{
    CHECK_EQ(sync_file(s), -ENOSPC);
    CHECK_EQ(sync_file(s), 0);
}

#define FILE_CASES(X)                      \
    X(a_short_write, SHORT)                \
    X(a_short_write_of_all, SHORT)         \
    X(a_delayed_write_is_overtaken, DELAY) \
    X(an_interrupted_write, INTERRUPTED)   \
    X(a_disk_that_is_full_once, DISK_FULL) \
    X(a_disk_that_is_found_full_late, DISK_FULL)

#define FILE_UNIT(function, fault) {"machine/" #function, meet_fault_on_disk, CASE_##function},

enum { FILE_CASES(FAULT_NUMBER) };

static void meet_fault_on_disk(uintptr_t number)
{
    static const struct {
        mr_fault fault;
        void (*run)(stored *s);
    } cases[] = {FILE_CASES(FAULT_ENTRY)};
    stored s = new_stored(cases[number].fault, 0);
    cases[number].run(&s);
    free_stored(&s);
}

static void a_disk_has_room_for_so_much(uintptr_t unused)
{
    stored s = new_stored(MR_FAULT_NONE, 1000);
    static char data[2000];
    mr_machine_state state;
    (void)unused;
    CHECK_EQ(write_at(&s, data, 600, 0), 600);
    CHECK_EQ(write_at(&s, data, 600, 600), 400); /* what there is room for */
    CHECK_EQ(write_at(&s, data, 600, 1000), -ENOSPC);
    CHECK_EQ(write_at(&s, data, 600, 5000), -ENOSPC);
    CHECK_EQ(write_at(&s, data, 600, 300), 600); /* what is there already can be written over */
    mr_request all = at(MR_WRITE_FILE, s.file, data, 600, 900);
    all.flags = MR_ALL;
    mr_completion completion = perform(&s.w, all);
    CHECK_EQ(completion.result, -ENOSPC);
    CHECK_EQ(completion.transferred, 100);
    int other = MUST(mr_machine_open(s.w.machine, "a file", O_RDWR | O_TRUNC));
    CHECK_EQ(mr_machine_pwrite(s.w.machine, other, data, 2000, 0), 1000);
    CHECK_EQ(mr_machine_close(s.w.machine, other), 0);
    free_stored(&s);
    s = new_stored(MR_FAULT_NONE, 1000);
    mr_machine_inspect(s.w.machine, &state);
    CHECK_EQ(state.disk_bytes, 0);
    free_stored(&s);
}

static void files_have_names(uintptr_t unused)
{
    stored s = new_stored(MR_FAULT_NONE, 0);
    mr_machine *machine = s.w.machine;
    char byte;
    (void)unused;
    CHECK_EQ(write_at(&s, "x", 1, 0), 1);
    CHECK_EQ(mr_machine_open(machine, "a file", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    CHECK_EQ(mr_machine_open(machine, "another", O_RDWR), -ENOENT);
    int reader = MUST(mr_machine_open(machine, "a file", O_RDONLY)),
        writer = MUST(mr_machine_open(machine, "b", O_WRONLY | O_CREAT));
    CHECK_EQ(mr_machine_pread(machine, reader, &byte, 1, 0), 1);
    CHECK_EQ(mr_machine_pwrite(machine, reader, &byte, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_pread(machine, writer, &byte, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_size(machine, reader), 1);
    CHECK_EQ(mr_machine_unlink(machine, "b"), 0);
    CHECK_EQ(mr_machine_pwrite(machine, writer, &byte, 1, 0), 1); /* it lives on without its name */
    CHECK_EQ(mr_machine_open(machine, "b", O_RDWR), -ENOENT);
    CHECK_EQ(mr_machine_close(machine, reader), 0);
    CHECK_EQ(mr_machine_close(machine, writer), 0);
    free_stored(&s);
}

static void directories_have_names(uintptr_t unused)
{
    world w = new_world(&(mr_machine_plan){.seed = 6});
    mr_machine *machine = w.machine;
    mr_machine_status status;
    char name[MR_MACHINE_NAME_BYTES];
    bool is_directory = false;
    (void)unused;
    CHECK_EQ(mr_machine_mkdir(machine, "a", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "a", 0700), -EEXIST);
    CHECK_EQ(mr_machine_mkdir(machine, "b/c", 0700), -ENOENT);
    CHECK_EQ(mr_machine_mkdir(machine, "/a//./b", 0700), 0);
    int file = MUST(mr_machine_open_with(machine, "a/b/../f", O_RDWR | O_CREAT, 0640));
    CHECK_EQ(mr_machine_open(machine, "a", O_RDWR), -EISDIR);
    CHECK_EQ(mr_machine_open(machine, "a/f/x", O_RDWR | O_CREAT), -ENOTDIR);
    CHECK_EQ(mr_machine_unlink(machine, "a"), -EISDIR);
    CHECK_EQ(mr_machine_rmdir(machine, "a"), -ENOTEMPTY);
    CHECK_EQ(mr_machine_rename(machine, "a", "a/b/a", 0), -EINVAL);
    CHECK_EQ(mr_machine_rename(machine, "a/f", "a/b", 0), -EISDIR);
    CHECK_EQ(mr_machine_link(machine, "a/f", "g"), 0);
    CHECK_EQ(mr_machine_rename(machine, "g", "a/f", MR_MACHINE_NO_REPLACE), -EEXIST);
    CHECK_EQ(mr_machine_rename(machine, "g", "a/b", MR_MACHINE_EXCHANGE), 0);
    CHECK_EQ(mr_machine_stat(machine, "a/b", &status), 0);
    CHECK_EQ(status.names, 2);
    CHECK_EQ(status.permissions, 0640);
    CHECK_EQ(mr_machine_stat(machine, "g", &status), 0);
    CHECK(status.is_directory);
    CHECK_EQ(mr_machine_list(machine, "a", 0, name, &is_directory), 1);
    CHECK_EQ(mr_machine_list(machine, "a", 2, name, &is_directory), 0);
    CHECK_EQ(mr_machine_rmdir(machine, "g"), 0);
    CHECK_EQ(mr_machine_stat(machine, "g", &status), -ENOENT);
    CHECK_EQ(mr_machine_close(machine, file), 0);
    free_world(&w);
}

/* Makes files and directories, syncs some and renames them; then the power fails, and comes back. */
static void crash_once(uint64_t seed)
{
    world w = new_world(&(mr_machine_plan){.seed = seed});
    mr_machine *machine = w.machine;
    mr_machine_state state;
    char bytes[3000] = {1}, found[3000];
    CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
    int root = MUST(mr_machine_open(machine, "/", O_RDONLY)), directory = MUST(mr_machine_open(machine, "d", O_RDONLY));
    int safe = MUST(mr_machine_open(machine, "d/safe", O_RDWR | O_CREAT));
    CHECK_EQ(mr_machine_pwrite(machine, safe, bytes, sizeof bytes, 0), sizeof bytes);
    CHECK_EQ(mr_machine_fsync(machine, safe), 0);
    CHECK_EQ(mr_machine_fsync(machine, directory), 0);
    CHECK_EQ(mr_machine_fsync(machine, root), 0);
    int other = MUST(mr_machine_open(machine, "d/other", O_RDWR | O_CREAT));
    CHECK_EQ(mr_machine_pwrite(machine, other, bytes, sizeof bytes, 100), sizeof bytes);
    CHECK_EQ(mr_machine_mkdir(machine, "d/e", 0700), 0);
    CHECK_EQ(mr_machine_rename(machine, "d/e", "f", 0), 0);
    CHECK_EQ(mr_machine_rename(machine, "d/other", "f/other", 0), 0);
    mr_machine_crash(machine);
    CHECK_EQ(mr_machine_pread(machine, safe, found, sizeof found, 0), -EIO);
    for (int number = root; number <= other; number++)
        CHECK_EQ(mr_machine_close(machine, number), 0);
    safe = MUST(mr_machine_open(machine, "d/safe", O_RDONLY));
    CHECK_EQ(mr_machine_pread(machine, safe, found, sizeof found, 0), sizeof found);
    CHECK_EQ(memcmp(found, bytes, sizeof bytes), 0);
    CHECK_EQ(mr_machine_close(machine, safe), 0);
    /* Whatever is left can be removed. */
    mr_machine_unlink(machine, "d/safe");
    mr_machine_unlink(machine, "d/other");
    mr_machine_unlink(machine, "f/other");
    mr_machine_unlink(machine, "d/e/other");
    mr_machine_rmdir(machine, "d/e");
    mr_machine_rmdir(machine, "f");
    CHECK_EQ(mr_machine_rmdir(machine, "d"), 0);
    mr_machine_inspect(machine, &state);
    CHECK_EQ(state.disk_bytes, 0);
    free_world(&w);
}

static void a_crash_leaves_what_was_synced(uintptr_t unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 300; seed++)
        crash_once(seed);
}

static void opening_meets_faults(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_NO_DESCRIPTORS}, {2, MR_FAULT_DISK_FULL}};
    world w = new_world(&(mr_machine_plan){.planned = planned, .planned_count = 2});
    (void)unused;
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR | O_CREAT), -EMFILE);
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR | O_CREAT), -ENOSPC);
    CHECK_EQ(mr_machine_open(w.machine, "a file", O_RDWR), -ENOENT);
    free_world(&w);
}

/* ----------------------------------------------------------------------------------------------- determinism --- */

enum { PAIRS = 10, ROUNDS = 400 };

static mr_request random_request(uint64_t *random, mr_handle end, mr_handle file, void *buffer)
{
    static const mr_kind kinds[] = {MR_SEND, MR_SEND, MR_RECV, MR_RECV, MR_READ_FILE, MR_WRITE_FILE, MR_SYNC_FILE};
    mr_kind kind = kinds[harness_random(random) % (sizeof kinds / sizeof *kinds)];
    bool is_on_file = kind == MR_READ_FILE || kind == MR_WRITE_FILE || kind == MR_SYNC_FILE;
    return at(kind, is_on_file ? file : end, buffer, 100, harness_random(random) % 1000);
}

/* Sends one to itself, and notes which it gets. */
static void exchange_datagram(mr_machine *machine, int messenger, const struct sockaddr_in *address, uint64_t serial)
{
    uint64_t sent = serial, received = 0;
    struct iovec there = {&sent, sizeof sent}, here = {&received, sizeof received};
    CHECK_EQ(mr_machine_send_to(machine, messenger, &there, 1, (const struct sockaddr *)address, sizeof *address), 8);
    ssize_t size = mr_machine_receive_from(machine, messenger, &here, 1, NULL, NULL);
    mr_machine_note(machine, "datagram %llu size %zd", (unsigned long long)received, size);
}

/* Transfers between pairs, with a file and of datagrams, and every fault there is; the trace of it, to be freed. */
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
    mr_handle file = adopt(&w, mr_machine_file(w.machine));
    struct sockaddr_in address;
    int messenger = bound_messenger(w.machine, &address);
    for (int i = 0; i < ROUNDS; i++) {
        int place = (int)(harness_random(&random) % (2 * PAIRS));
        mr_request request = random_request(&random, ends[place / 2][place % 2], file, buffers[place]);
        mr_completion completion;
        request.deadline_ns = mr_machine_now_ns(w.machine) + harness_random(&random) % (20 * NS_PER_MS) + 1;
        in_flight += mr_loop_submit(w.loop, &request, &completion) == MR_PENDING;
        exchange_datagram(w.machine, messenger, &address, (uint64_t)i);
        w.arrived = 0;
        poll_loop(&w);
        in_flight -= w.arrived;
    }
    run_until(&w, in_flight);
    for (int i = 0; i < PAIRS; i++)
        close_both(&w, ends[i]);
    close_handle(&w, file);
    CHECK_EQ(mr_machine_close(w.machine, messenger), 0);
    mr_machine_sleep(w.machine, 1000 * NS_PER_MS); /* what was overtaken has come, in vain */
    const char *trace = mr_machine_trace(w.machine, length);
    char *copy = malloc(*length);
    memcpy(copy, trace, *length);
    free_world(&w);
    return copy;
}

static void the_same_seed_gives_the_same_trace(uintptr_t unused)
{
    (void)unused;
    for (uint64_t round = 0; round < harness_rounds(200); round++) {
        uint64_t seed = harness_first_seed() + round;
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
    UNIT(machine, lengths_of_time_are_the_machines),
    FAULT_CASES(FAULT_UNIT){"machine/a_short_receive_into_a_lent_buffer", borrowed_buffers_meet_faults, MR_FAULT_SHORT},
    {"machine/a_delayed_receive_into_a_lent_buffer", borrowed_buffers_meet_faults, MR_FAULT_DELAY},
    {"machine/an_interrupted_receive_into_a_lent_buffer", borrowed_buffers_meet_faults, MR_FAULT_INTERRUPTED},
    UNIT(machine, a_delayed_send_then_receive_that_finds_no_room),
    UNIT(machine, scarce_descriptors),
    UNIT(machine, completions_come_in_any_order),
    UNIT(machine, datagrams_stay_apart),
    UNIT(machine, datagrams_have_addresses),
    UNIT(machine, nobody_takes_a_datagram),
    DATAGRAM_CASES(DATAGRAM_UNIT) UNIT(machine, faults_of_connections_spare_datagrams),
    FILE_CASES(FILE_UNIT) UNIT(machine, a_disk_has_room_for_so_much),
    UNIT(machine, files_have_names),
    UNIT(machine, directories_have_names),
    UNIT(machine, a_crash_leaves_what_was_synced),
    UNIT(machine, opening_meets_faults),
    UNIT(machine, the_same_seed_gives_the_same_trace),
    {0},
};
