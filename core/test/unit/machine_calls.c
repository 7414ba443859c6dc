/* machine_calls.c: descriptor numbers, time and notes of a simulated machine. */
#include "machine_calls.h"

static void numbers_run_out(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.descriptors_max = 3});
    int ends[2];
    mr_machine_state state;
    (void)unused;
    int first = MUST(mr_machine_eventfd(machine, 1, 0));
    MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_pipe(machine, ends, 0), -EMFILE); /* only one end can be created */
    mr_machine_inspect(machine, &state);
    CHECK_EQ(state.open_descriptors, 2);
    int third = MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_eventfd(machine, 1, 0), -EMFILE);
    CHECK_EQ(mr_machine_pipe(machine, ends, 0), -EMFILE);
    CHECK_EQ(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_EQ(mr_machine_file(machine), -EMFILE);
    CHECK_EQ(mr_machine_open(machine, "f", O_RDWR | O_CREAT), -EMFILE);
    CHECK_EQ(mr_machine_fcntl(machine, first, F_DUPFD_CLOEXEC, 0), -EMFILE);
    CHECK_EQ(mr_machine_dup3(machine, first, third, 0), third); /* replaces another */
    mr_machine_destroy(machine);
    machine = plain_machine();
    CHECK_GT(mr_machine_limit(machine), MR_MACHINE_FIRST);
    mr_machine_set_limit(machine, MR_MACHINE_FIRST + 1);
    MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_eventfd(machine, 1, 0), -EMFILE);
    mr_machine_destroy(machine);
}

static void a_connection_waits_for_a_number(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.descriptors_max = 2});
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80);
    int client = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
    (void)unused;
    CHECK_EQ(mr_machine_listen(machine, listener, 5), 0);
    CHECK_EQ(connect_to(machine, client, AF_INET, 80), -EINPROGRESS);
    CHECK_EQ(mr_machine_accept(machine, listener, NULL, NULL, 0), -EMFILE);
    closed(machine, client);
    CHECK_GE(mr_machine_accept(machine, listener, NULL, NULL, 0), MR_MACHINE_FIRST);
    CHECK_EQ(mr_machine_accept(machine, listener, NULL, NULL, 0), -EAGAIN);
    mr_machine_destroy(machine);
}

static void numbers_are_duplicated(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    uint64_t value = 0;
    struct iovec element = {&value, sizeof value}, little = {&value, 1};
    int counter = MUST(mr_machine_eventfd(machine, 5, 0));
    (void)unused;
    int copy = MUST(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, MR_MACHINE_FIRST + 20));
    CHECK_EQ(copy, MR_MACHINE_FIRST + 20);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, MR_MACHINE_FIRST + 20), MR_MACHINE_FIRST + 21);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, 3), MR_MACHINE_FIRST + 3);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, 1 << 24), -EINVAL);
    CHECK_EQ(mr_machine_dup3(machine, counter, MR_MACHINE_FIRST + 10, 0), MR_MACHINE_FIRST + 10);
    CHECK_EQ(mr_machine_dup3(machine, counter, counter, 0), -EINVAL);
    CHECK_EQ(mr_machine_dup3(machine, counter, 3, 0), -EBADF);
    CHECK_EQ(mr_machine_dup3(machine, counter, 1 << 24, 0), -EBADF);
    CHECK_EQ(mr_machine_dup3(machine, 3, MR_MACHINE_FIRST + 10, 0), -EBADF);
    CHECK_EQ(mr_machine_fcntl(machine, 3, F_GETFD, 0), -EBADF);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFD, 0), FD_CLOEXEC);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_SETFD, 0), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETLK, 0), -EINVAL);
    CHECK_EQ(mr_machine_fcntl(machine, copy, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFL, 0), O_RDWR | O_NONBLOCK); /* of the file, not of the number */
    CHECK_EQ(mr_machine_fcntl(machine, copy, F_SETFL, 0), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFL, 0), O_RDWR);
    closed(machine, counter);
    CHECK_EQ(mr_machine_receive(machine, copy, &little, 1, 0), -EINVAL);
    CHECK_EQ(mr_machine_send(machine, copy, &little, 1, 0), -EINVAL);
    CHECK_EQ(mr_machine_readable(machine, copy), 0);
    CHECK_EQ(mr_machine_writable(machine, copy), 0);
    CHECK_EQ(mr_machine_receive(machine, copy, &element, 1, 0), 8); /* it lives as long as one of its numbers */
    CHECK_EQ(value, 5);
    CHECK_EQ(mr_machine_readable(machine, copy), -EAGAIN);
    CHECK_EQ(mr_machine_receive(machine, copy, &element, 1, 0), -EAGAIN);
    CHECK_EQ(mr_machine_receive(machine, 3, &element, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_send(machine, 3, &element, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_readable(machine, 3), -EBADF);
    CHECK_EQ(mr_machine_writable(machine, 3), -EBADF);
    CHECK_EQ(mr_machine_close(machine, counter), -EBADF);
    mr_machine_destroy(machine);
}

static void chance_and_notes(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.seed = 3, .traces = true, .delay_max_ns = 5, .stall_ns = 6});
    static char text[3000];
    size_t length;
    bool seen[3] = {false};
    (void)unused;
    for (int i = 0; i < 100; i++)
        seen[mr_machine_random(machine, 3)] = true;
    CHECK(seen[0] && seen[1] && seen[2]);
    CHECK_EQ(mr_machine_random(machine, 0), 0);
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 100; i++)
        mr_machine_note(machine, "%s", text); /* a line has a limit, the trace has none */
    const char *trace = mr_machine_trace(machine, &length);
    CHECK_GT(length, 10000);
    CHECK_EQ(trace[length - 1], '\n');
    CHECK_EQ(strcmp(mr_fault_name(MR_FAULT_SHORT), "short"), 0);
    CHECK_EQ(strcmp(mr_fault_name(MR_FAULT_COUNT), "unknown"), 0);
    CHECK_EQ(mr_machine_await(machine), -EDEADLK); /* nothing will ever happen */
    mr_machine_destroy(machine);
}

const harness_test machine_calls_tests[] = {
    UNIT(machine_calls, numbers_run_out),
    UNIT(machine_calls, a_connection_waits_for_a_number),
    UNIT(machine_calls, numbers_are_duplicated),
    UNIT(machine_calls, chance_and_notes),
    {0},
};
