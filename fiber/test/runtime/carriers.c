/* carriers.c: starting, placing, stopping. */
#include "runtime_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void *nothing(void *argument)
{
    return argument;
}

static void the_first_spawn_starts_them(void)
{
    CHECK_EQ(mr_carriers_count(), 0);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)7), 7);
    CHECK_GT(mr_carriers_count(), 0);
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(mr_carriers_count(), 0);
}

static void start_twice(void)
{
    start_carriers(1);
    CHECK_EQ(mr_carriers_start(NULL), -EALREADY);
    CHECK_EQ(mr_carriers_stop(), 0);
    start_carriers(2);
    CHECK_EQ(mr_carriers_count(), 2);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)8), 8);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void options_that_cannot_be(void)
{
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = MR_CARRIERS_MAX + 1}), -EINVAL);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.stack_size_bytes = SIZE_MAX / 2}), -EINVAL);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.backend = MR_BACKEND_COUNT}), -EINVAL);
    CHECK_EQ(mr_carriers_count(), 0);
}

/* All carriers have the same backend. Root has no such limit. */
static void little_memory_for_rings(void)
{
    enum { CARRIERS = 16, NOBODY = 65534 };
    const struct rlimit limit = {65536, 65536};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0)
        CHECK_EQ(setuid(NOBODY), 0);
    CHECK_EQ(unsetenv("MILLRACE_BACKEND"), 0);
    start_carriers(CARRIERS);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)9), 9);
    CHECK_EQ(mr_carriers_stop(), 0);
}

/* A background process may have closed its standard streams. */
static void closed_standard_descriptors_stay_closed(void)
{
    MUST(close(STDIN_FILENO));
    start_carriers(2);
    CHECK_EQ((intptr_t)on_fiber(nothing, (void *)10), 10);
    CHECK_EQ(open("/dev/null", O_RDONLY), STDIN_FILENO);
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(fcntl(STDIN_FILENO, F_GETFD), 0);
}

enum { MUCH = 1 << 20 }; /* more than the buffer of a connection holds */

/* If that fails, the other side learns that no more will come. */
static void *send_much(void *argument)
{
    static char bytes[MUCH];
    ssize_t sent = send((int)(intptr_t)argument, bytes, sizeof bytes, 0);
    if (sent != MUCH)
        MUST(shutdown((int)(intptr_t)argument, SHUT_WR));
    return (void *)sent;
}

/* One receive may end early: closing the ring that was only tried interrupts the thread that made it. */
static void receive_much(int socket)
{
    static char bytes[MUCH];
    for (ssize_t received = 0, part; received < MUCH; received += part) {
        part = MUST(recv(socket, bytes, sizeof bytes, 0));
        CHECK_GT(part, 0);
    }
}

/* Its peer sends no more, and reads late. On io_uring such a wait needs more than a poll. */
static void so_they_do_when_a_send_waits(void)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    MUST(shutdown(ends[1], SHUT_WR));
    MUST(close(STDIN_FILENO));
    start_carriers(1);
    mr_fiber *sender = spawn(send_much, (void *)(intptr_t)ends[0]);
    let_fibers_park();
    CHECK_EQ(open("/dev/null", O_RDONLY), STDIN_FILENO);
    receive_much(ends[1]);
    CHECK_EQ((intptr_t)join(sender), MUCH);
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(fcntl(STDIN_FILENO, F_GETFD), 0);
}

static atomic_uint ended;

static void *end_late(void *argument)
{
    (void)argument;
    CHECK_EQ(mr_fiber_sleep(20 * NS_PER_MS), 0);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *spawn_another(void *argument)
{
    (void)argument;
    CHECK_EQ(mr_fiber_sleep(20 * NS_PER_MS), 0);
    CHECK_EQ(mr_fiber_spawn(NULL, NULL, end_late, NULL), 0);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void stop_waits_for_fibers_and_their_fibers(void)
{
    start_carriers(2);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(mr_fiber_spawn(NULL, NULL, spawn_another, NULL), 0);
    CHECK_EQ(mr_carriers_stop(), 0);
    CHECK_EQ(atomic_load(&ended), 20);
}

static mr_event *released;

static void *wait_for_release(void *argument)
{
    CHECK_EQ(mr_event_wait(released, far_deadline()), 0);
    return argument;
}

static void *stop(void *argument)
{
    CHECK_EQ(mr_carriers_stop(), 0);
    return argument;
}

/* Whether the other thread is still starting or already waits for the fiber. */
static void start_does_not_wait_for_fibers(void)
{
    pthread_t stopping;
    CHECK_EQ(mr_event_create(&released), 0);
    start_carriers(1);
    CHECK_EQ(mr_fiber_spawn(NULL, NULL, wait_for_release, NULL), 0);
    CHECK_EQ(pthread_create(&stopping, NULL, stop, NULL), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(mr_carriers_start(NULL), -EALREADY);
        usleep(1000);
    }
    mr_event_set(released);
    CHECK_EQ(pthread_join(stopping, NULL), 0);
    mr_event_destroy(released);
}

static void *stop_from_a_fiber(void *argument)
{
    (void)argument;
    CHECK_EQ(mr_carriers_stop(), -EDEADLK);
    return NULL;
}

static void a_fiber_cannot_stop_them(void)
{
    on_fiber(stop_from_a_fiber, NULL);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static atomic_bool stop_spawning;

static void *spawn_again_and_again(void *argument)
{
    while (!atomic_load(&stop_spawning))
        on_fiber(nothing, NULL);
    return argument;
}

static void they_stop_while_a_thread_spawns(void)
{
    pthread_t spawning;
    CHECK_EQ(pthread_create(&spawning, NULL, spawn_again_and_again, NULL), 0);
    for (unsigned i = 0; i < harness_rounds(300); i++) {
        CHECK_EQ(mr_carriers_stop(), 0);
        mr_carriers_start(&(mr_carriers_options){.carriers = 1});
    }
    atomic_store(&stop_spawning, true);
    CHECK_EQ(pthread_join(spawning, NULL), 0);
    CHECK_EQ(mr_carriers_stop(), 0);
}

enum { FIBERS = 400 };

static mr_event *all_placed;

static void *note_carrier(void *argument)
{
    atomic_uint *fibers_on = argument;
    atomic_fetch_add(&fibers_on[mr_fiber_carrier(mr_fiber_self())], 1);
    CHECK_EQ(mr_event_wait(all_placed, far_deadline()), 0);
    return NULL;
}

/* Starts that many fibers, which all exist at the same time, and counts those of each carrier. */
static void place_preferring(unsigned preferred, unsigned count, atomic_uint *fibers_on)
{
    mr_fiber *fibers[FIBERS];
    mr_fiber_options options = {.preferred_carrier = preferred};
    CHECK_EQ(mr_event_create(&all_placed), 0);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(mr_fiber_spawn(&fibers[i], &options, note_carrier, fibers_on), 0);
    mr_event_set(all_placed);
    for (unsigned i = 0; i < count; i++)
        join(fibers[i]);
    mr_event_destroy(all_placed);
}

static void start_together(unsigned count, atomic_uint *fibers_on)
{
    place_preferring(0, count, fibers_on);
}

/* With the less loaded of two at random the fullest of n is O(log log n) above the mean (Azar et al., 1994); with
 * one at random this test would fail in most runs. */
static void placement_is_balanced(void)
{
    static atomic_uint fibers_on[4];
    start_carriers(4);
    start_together(FIBERS, fibers_on);
    for (int i = 0; i < 4; i++) {
        CHECK_GE(fibers_on[i], FIBERS / 4 - 8);
        CHECK_LE(fibers_on[i], FIBERS / 4 + 8);
    }
}

/* Ended fibers must not count: after many short ones on all carriers the long ones are still spread evenly. */
static void placement_forgets_ended_fibers(void)
{
    static atomic_uint fibers_on[2];
    start_carriers(2);
    for (int i = 0; i < 200; i++)
        on_fiber(nothing, NULL);
    start_together(40, fibers_on);
    CHECK_GE(fibers_on[0], 16);
    CHECK_LE(fibers_on[0], 24);
}

static void a_preferred_carrier_is_chosen(void)
{
    static atomic_uint fibers_on[3];
    start_carriers(3);
    for (unsigned i = 0; i < 6; i++)
        place_preferring(1 + i, 5, fibers_on);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fibers_on[i], 10);
}

/* It gets two thirds of them; the other one the rest. */
static void a_preferred_carrier_is_not_overloaded(void)
{
    static atomic_uint fibers_on[2];
    start_carriers(2);
    place_preferring(2, 300, fibers_on);
    CHECK_GE(fibers_on[1], 190);
    CHECK_LE(fibers_on[1], 220);
}

const fiber_case carriers_cases[] = {
    CASE(the_first_spawn_starts_them),
    CASE(start_twice),
    CASE(options_that_cannot_be),
    CASE(little_memory_for_rings),
    CASE(closed_standard_descriptors_stay_closed),
    CASE(so_they_do_when_a_send_waits),
    CASE(stop_waits_for_fibers_and_their_fibers),
    CASE(start_does_not_wait_for_fibers),
    CASE(a_fiber_cannot_stop_them),
    CASE(they_stop_while_a_thread_spawns),
    CASE(placement_is_balanced),
    CASE(placement_forgets_ended_fibers),
    CASE(a_preferred_carrier_is_chosen),
    CASE(a_preferred_carrier_is_not_overloaded),
    {0},
};
