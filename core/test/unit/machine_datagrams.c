/* machine_datagrams.c: datagrams on a simulated machine, and their faults. */
#include "machine_world.h"

/* Two datagram sockets with addresses; ends[0] is connected to ends[1]. */
typedef struct messengers {
    world w;
    int numbers[2];
    mr_handle ends[2];
    struct sockaddr_in addresses[2];
} messengers;

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
    post(&m, "no space for this");
    check_next(&m, "eight by");
    check_no_more(&m);
    close_handle(&m.w, m.ends[1]);
    post(&m, "into the dark");
    CHECK_EQ(perform(&m.w, transfer(MR_SEND, m.ends[0], bytes, 1)).result, -ECONNREFUSED);
    /* A socket without a peer gets no error. */
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

#define DATAGRAM_UNIT(function, fault) {"machine_datagrams/" #function, meet_fault_on_the_way, CASE_##function},

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

/* A fault must not deliver half a datagram, nor reset a connection that does not exist. */
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

const harness_test machine_datagrams_tests[] = {
    UNIT(machine_datagrams, datagrams_stay_apart),
    UNIT(machine_datagrams, datagrams_have_addresses),
    UNIT(machine_datagrams, nobody_takes_a_datagram),
    DATAGRAM_CASES(DATAGRAM_UNIT) UNIT(machine_datagrams, faults_of_connections_spare_datagrams),
    {0},
};
