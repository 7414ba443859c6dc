/* fork.c: mr_group_reset_after_fork. */
#include "../system/calls.h"
#include "conform.h"

#include <sys/wait.h>
#include <unistd.h>

/* Runs a function in a child process; fails the test unless it returns. */
static void in_child(void (*run)(driver *, mr_handle), driver *d, mr_handle handle)
{
    int status;
    if (test_machine)
        SKIP("a simulated machine lives in one process");
    fflush(NULL);
    pid_t child = MUST(fork());
    if (child == 0) {
        run(d, handle);
        exit(0); /* not _exit: LeakSanitizer runs at exit */
    }
    MUST(waitpid(child, &status, 0));
    CHECK_EQ(status, 0);
}

/* A new loop in the group of the parent, in the child. */
static driver *new_driver_after_fork(driver *parents)
{
    mr_group_reset_after_fork(driver_group(parents));
    return driver_new_beside(parents);
}

static void use_the_group(driver *parents, mr_handle handle)
{
    driver *d = new_driver_after_fork(parents);
    int pair[2];
    char byte;
    (void)handle;
    local_pair(pair);
    mr_handle own = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(own, &byte, 1));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    CHECK_EQ(perform(d, close_request(own)).result, 0);
    CHECK_EQ(perform(d, timeout_request(in_ms(5))).result, 0);
    driver_free(d);
}

static void the_child_can_go_on(void)
{
    driver *d = driver_new();
    in_child(use_the_group, d, 0);
    driver_free(d);
}

static void the_parent_is_unharmed(void)
{
    connection c = tcp_connection();
    int idle[2];
    char byte, idle_byte;
    struct sockaddr_in address;
    local_pair(idle);
    mr_token receiving = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token accepting = start(c.d, accept_request(adopt(c.d, tcp_listener(5, &address)), NULL));
    mr_token waiting = start(c.d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(idle[0])));
    mr_token sleeping = start(c.d, timeout_request(in_ms(50)));
    mr_token cancelled = start(c.d, recv_request(adopt(c.d, idle[0]), &idle_byte, 1));
    run_for_ms(c.d, 2);
    in_child(use_the_group, c.d, 0);
    in_child(use_the_group, c.d, 0);
    run_for_ms(c.d, 2);
    CHECK(!has_arrived(c.d, receiving) && !has_arrived(c.d, accepting) && !has_arrived(c.d, waiting));
    mr_loop_cancel(driver_loop(c.d), cancelled);
    CHECK_EQ(finish(c.d, cancelled).result, -ECANCELED);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, receiving).result, 1);
    CHECK_EQ(byte, 'x');
    connect_to(&address);
    CHECK_GE(finish(c.d, accepting).result, 0);
    write_all(idle[1], "x", 1);
    CHECK_EQ(finish(c.d, waiting).result, 0);
    CHECK_EQ(finish(c.d, sleeping).result, 0);
    driver_free(c.d);
}

/* The parent was about to receive on it. This must not affect the child. */
static void use_the_handle(driver *parents, mr_handle handle)
{
    driver *d = new_driver_after_fork(parents);
    char byte;
    mr_token token = start(d, recv_request(handle, &byte, 1));
    CHECK_STAYS_PENDING(d, token);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    CHECK_EQ(perform(d, send_request(handle, "c", 1)).result, 1);
    token = start(d, recv_request(handle, &byte, 1));
    CHECK_EQ(perform(d, close_request(handle)).result, 0); /* without waiting for the parent's loop */
    CHECK_EQ(finish(d, token).result, -EBADF);
    CHECK(!is_open(mr_handle_descriptor(handle)));
    driver_free(d);
}

static void handles_stay_valid_in_the_child(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    in_child(use_the_handle, c.d, c.handle);
    CHECK(is_open(c.number));
    CHECK_EQ(drain(c.peer), 1);
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "p", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    CHECK_EQ(byte, 'p');
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    driver_free(c.d);
}

static void use_a_new_timer(driver *parents, mr_handle parents_token)
{
    driver *d = new_driver_after_fork(parents);
    mr_token token = start(d, timeout_request(in_ms(5)));
    mr_loop_cancel(driver_loop(d), parents_token);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void tokens_of_the_parent_name_nothing_in_the_child(void)
{
    driver *d = driver_new();
    mr_token token = start(d, timeout_request(in_ms(100000)));
    in_child(use_a_new_timer, d, token);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    driver_free(d);
}

/* Memory that this process shares with the kernel for a loop of the parent would be corrupted by both. */
static void check_no_shared_rings(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps))
        CHECK(!strstr(line, "io_uring"));
    fclose(maps);
}

static void reset_and_count(driver *parents, mr_handle expected_descriptors)
{
    check_no_shared_rings();
    mr_group_reset_after_fork(driver_group(parents));
    CHECK_EQ(open_descriptors(), expected_descriptors);
}

static void the_child_keeps_no_copies(void)
{
    int before = open_descriptors();
    driver *d = driver_new();
    driver *other = driver_new_beside(d);
    poll_once(d);
    poll_once(other);
    in_child(reset_and_count, d, (mr_handle)before);
    driver_free(other);
    driver_free(d);
}

/* Even a loop with operations, timers, messages and completions that nobody took. */
static void reset_only(driver *parents, mr_handle handle)
{
    (void)handle;
    mr_group_reset_after_fork(driver_group(parents));
    mr_group_destroy(driver_group(parents));
}

static void a_busy_group_can_be_reset(void)
{
    enum { COUNT = 400 };
    connection c = local_connection();
    char bytes[COUNT];
    mr_token tokens[2 * COUNT];
    for (int i = 0; i < COUNT; i++) {
        tokens[2 * i] = start(c.d, recv_request(c.handle, &bytes[i], 1));
        tokens[2 * i + 1] = start(c.d, timeout_request(in_ms(100000)));
        mr_loop_cancel_remote(driver_loop(c.d), tokens[2 * i + 1]);
    }
    write_all(c.peer, "abc", 3);
    in_child(reset_only, c.d, 0);
    poll_once(c.d);
    in_child(reset_only, c.d, 0);
    for (int i = 0; i < COUNT; i++)
        mr_loop_cancel(driver_loop(c.d), tokens[2 * i]);
    int received = 0;
    for (int i = 0; i < COUNT; i++) {
        mr_completion completion = finish(c.d, tokens[2 * i]);
        received += completion.result == 1;
        CHECK(completion.result == 1 || completion.result == -ECANCELED);
        CHECK_EQ(finish(c.d, tokens[2 * i + 1]).result, -ECANCELED);
    }
    CHECK_EQ((size_t)received + drain(c.number), 3);
    driver_free(c.d);
}

const conform_case fork_cases[] = {
    CASE(the_child_can_go_on),
    CASE(the_parent_is_unharmed),
    CASE(handles_stay_valid_in_the_child),
    CASE(tokens_of_the_parent_name_nothing_in_the_child),
    CASE(the_child_keeps_no_copies),
    CASE(a_busy_group_can_be_reset),
    {0},
};
