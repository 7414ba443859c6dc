/* machine.c: a simulated machine as the program on it sees it: clock and links; and equal seeds give equal runs. */
#include "machine_world.h"

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

/* A duration begins on the machine's clock when the waiting begins. */
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

enum { PAIRS = 10, ROUNDS = 400 };

static mr_request random_request(uint64_t *random, mr_handle end, mr_handle file, void *buffer)
{
    static const mr_kind kinds[] = {MR_SEND, MR_SEND, MR_RECV, MR_RECV, MR_READ_FILE, MR_WRITE_FILE, MR_SYNC_FILE};
    mr_kind kind = kinds[harness_random(random) % (sizeof kinds / sizeof *kinds)];
    bool is_on_file = kind == MR_READ_FILE || kind == MR_WRITE_FILE || kind == MR_SYNC_FILE;
    return at(kind, is_on_file ? file : end, buffer, 100, harness_random(random) % 1000);
}

/* Sends a datagram to itself, and records which one it receives. */
static void exchange_datagram(mr_machine *machine, int messenger, const struct sockaddr_in *address, uint64_t serial)
{
    uint64_t sent = serial, received = 0;
    struct iovec there = {&sent, sizeof sent}, here = {&received, sizeof received};
    CHECK_EQ(mr_machine_send_to(machine, messenger, &there, 1, (const struct sockaddr *)address, sizeof *address), 8);
    ssize_t size = mr_machine_receive_from(machine, messenger, &here, 1, NULL, NULL);
    mr_machine_note(machine, "datagram %llu size %zd", (unsigned long long)received, size);
}

/* Transfers over pairs, files and datagrams, with every kind of fault. Returns the trace, which the caller frees. */
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
        int index = (int)(harness_random(&random) % (2 * PAIRS));
        mr_request request = random_request(&random, ends[index / 2][index % 2], file, buffers[index]);
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
    mr_machine_sleep(w.machine, 1000 * NS_PER_MS); /* the overtaken cancellation has arrived without effect */
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
    UNIT(machine, the_same_seed_gives_the_same_trace),
    {0},
};
