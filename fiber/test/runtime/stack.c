/* stack.c: sizes, guards, reuse. */
#include "runtime_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Recursion that no compiler can turn into a loop, because every frame is used after the deeper ones. Returns the
 * depth. */
static size_t touch(size_t bytes)
{
    volatile char frame[4096];
    frame[0] = 1;
    size_t deeper = bytes > sizeof frame ? touch(bytes - sizeof frame) : 0;
    __asm__ volatile("" ::: "memory");
    return deeper + (size_t)frame[0];
}

static void *touch_bytes(void *argument)
{
    return (void *)touch((size_t)(uintptr_t)argument);
}

static void a_size_for_each_spawn(void)
{
    mr_fiber *fiber;
    mr_fiber_options options = {.stack_size_bytes = 16 << 20};
    start_carriers(1);
    CHECK_EQ(mr_fiber_spawn(&fiber, &options, touch_bytes, (void *)(4 << 20)), 0); /* frames of sanitizers are larger */
    CHECK_GE((uintptr_t)join(fiber), 1024);
    options.stack_size_bytes = SIZE_MAX / 2;
    CHECK_EQ(mr_fiber_spawn(&fiber, &options, touch_bytes, NULL), -EINVAL);
}

/* Runs `body` in a child; its standard error is returned in `text`, how it ended by wait's status. */
static int run_in_child(void (*body)(void), char *text, size_t size)
{
    int ends[2], status;
    MUST(pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    MUST(waitpid(child, &status, 0));
    return status;
}

static void *overflow(void *argument)
{
    return (void *)touch((size_t)(uintptr_t)argument);
}

static void overflow_on_named_fiber(void)
{
    mr_fiber *fiber;
    mr_fiber_options options = {.name = "deep recursion", .stack_size_bytes = 64 * 1024};
    CHECK_EQ(mr_fiber_spawn(&fiber, &options, overflow, (void *)(1 << 20)), 0);
    join(fiber);
}

static void overflow_is_reported_by_name(void)
{
    char text[8192];
    int status = run_in_child(overflow_on_named_fiber, text, sizeof text);
    CHECK(strstr(text, "stack overflow on fiber \"deep recursion\" (stack of 65536 bytes)") != NULL);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0); /* a sanitizer's handler exits */
}

static void *overflow_as_a_thread(void *argument)
{
    mr_fiber_enter_thread();
    return overflow(argument);
}

static void overflow_on_fiber_that_is_a_thread(void)
{
    on_fiber(overflow_as_a_thread, (void *)(1 << 20));
}

/* Touches the lowest byte of a large frame first, and nothing above it. */
__attribute__((noinline)) static char touch_far_below(void)
{
    volatile char frame[700 * 1024];
    frame[0] = 1;
    return frame[0];
}

static void *use_a_large_frame(void *argument)
{
    touch_far_below();
    return argument;
}

static void *wait_for_ever(void *argument)
{
    mr_fiber_sleep_until(UINT64_MAX);
    return argument;
}

/* Between stacks of other fibers, which it would reach. */
static void overflow_by_a_large_frame(void)
{
    mr_fiber_options options = {.name = "large frame", .stack_size_bytes = 64 * 1024};
    mr_fiber *fibers[64];
    for (int i = 0; i < 64; i++)
        CHECK_EQ(mr_fiber_spawn(&fibers[i], &options, i == 32 ? use_a_large_frame : wait_for_ever, NULL), 0);
    join(fibers[32]);
    _exit(0);
}

static void a_large_frame_does_not_step_over_the_guard(void)
{
    char text[8192];
    int status = run_in_child(overflow_by_a_large_frame, text, sizeof text);
    CHECK(strstr(text, "stack overflow on fiber \"large frame\" (stack of 65536 bytes)") != NULL);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

/* As inside the core. */
static void overflow_where_a_fiber_is_a_thread(void)
{
    char text[8192];
    run_in_child(overflow_on_fiber_that_is_a_thread, text, sizeof text);
    CHECK(strstr(text, "stack overflow on fiber \"fiber\"") != NULL);
}

static void *write_to_null(void *argument)
{
    *(volatile int *)argument = 1;
    return NULL;
}

static void fault_that_is_no_overflow(void)
{
    on_fiber(write_to_null, (void *)16);
}

static void other_faults_are_left_alone(void)
{
    char text[8192];
    int status = run_in_child(fault_that_is_no_overflow, text, sizeof text);
    CHECK(strstr(text, "stack overflow on fiber") == NULL);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static void *raise_a_fault(void *argument)
{
    raise(SIGSEGV);
    return argument;
}

static void *return_it(void *argument)
{
    return argument;
}

static void raised_on_fiber(void)
{
    on_fiber(raise_a_fault, NULL);
    _exit(0);
}

static void sent_to_the_process(void)
{
    on_fiber(return_it, NULL);
    kill(getpid(), SIGSEGV);
    _exit(0);
}

static void a_fault_that_was_sent_ends_the_process(void)
{
    char text[8192];
    int status = run_in_child(raised_on_fiber, text, sizeof text);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0); /* a sanitizer's handler exits */
    status = run_in_child(sent_to_the_process, text, sizeof text);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static void ignored_then_overflow(void)
{
    signal(SIGSEGV, SIG_IGN);
    on_fiber(raise_a_fault, NULL);
    overflow_on_named_fiber();
}

static void a_fault_that_was_sent_and_is_ignored_changes_nothing(void)
{
    char text[8192];
    int status = run_in_child(ignored_then_overflow, text, sizeof text);
    CHECK(strstr(text, "stack overflow on fiber \"deep recursion\"") != NULL);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static volatile sig_atomic_t own_handler_ran;

static void own_handler(int signal_number)
{
    own_handler_ran = 1;
    _exit(signal_number == SIGSEGV ? 42 : 43);
}

static void fault_with_own_handler(void)
{
    signal(SIGSEGV, own_handler);
    on_fiber(write_to_null, (void *)16);
}

static void the_programs_own_handler_still_runs(void)
{
    char text[8192];
    int status = run_in_child(fault_with_own_handler, text, sizeof text);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void *wait_for_event(void *argument)
{
    CHECK_EQ(mr_event_wait(argument, far_deadline()), 0);
    return NULL;
}

static void *wait_deep_inside(void *argument)
{
    volatile char used[200 * 1024];
    for (size_t at = 0; at < sizeof used; at += 4096)
        used[at] = 1;
    return wait_for_event(argument) == NULL && used[0] == 1 ? NULL : argument;
}

/* 256 stacks keep all their used pages, the others 32 KiB. */
static void memory_of_kept_stacks_is_bounded(void)
{
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    SKIP("sanitizers allocate memory for every fiber");
#endif
    enum { COUNT = 900, PAGES = 50, HOT = 256, KEPT_PAGES = 8 };
    static mr_fiber *fibers[COUNT];
    mr_event *event;
    start_carriers(1);
    CHECK_EQ(mr_event_create(&event), 0);
    long before = resident_pages();
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(mr_fiber_spawn(&fibers[i], NULL, wait_deep_inside, event), 0);
    for (int tries = 0; tries < 200 && resident_pages() - before < COUNT * PAGES; tries++)
        CHECK_EQ(mr_fiber_sleep(50 * NS_PER_MS), 0);
    CHECK_GE(resident_pages() - before, COUNT * PAGES);
    mr_event_set(event);
    for (int i = 0; i < COUNT; i++)
        join(fibers[i]);
    CHECK_LT(resident_pages() - before, HOT * (PAGES + 6) + (COUNT - HOT) * (KEPT_PAGES + 2) + 1000);
    mr_event_destroy(event);
    CHECK_EQ(mr_carriers_stop(), 0);
}

/* A parked fiber costs the pages it touched, not the size of its stack. */
static void memory_is_committed_as_it_is_touched(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("TSan allocates memory for every fiber");
#endif
    enum { COUNT = 500 };
    mr_fiber *fibers[COUNT];
    mr_event *event;
    mr_fiber_options options = {.stack_size_bytes = 1 << 20};
    start_carriers(1);
    CHECK_EQ(mr_event_create(&event), 0);
    long before = resident_pages();
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(mr_fiber_spawn(&fibers[i], &options, wait_for_event, event), 0);
    CHECK_EQ(mr_fiber_sleep(50 * NS_PER_MS), 0);
    CHECK_LT(resident_pages() - before, COUNT * 24); /* all of it: 256 pages each */
    mr_event_set(event);
    for (int i = 0; i < COUNT; i++)
        join(fibers[i]);
    mr_event_destroy(event);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static unsigned mapped_kilobytes(void)
{
    long size = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%ld", &size), 1);
    fclose(file);
    return (unsigned)(size * (sysconf(_SC_PAGESIZE) / 1024));
}

static void *use_the_loop(void *argument)
{
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0);
    return argument;
}

#ifdef __SANITIZE_THREAD__
enum { KEPT_MIB_MAX = 100 }; /* TSan keeps what it knew of each fiber; from GCC 14 on that is 50 MiB. */
#else
enum { KEPT_MIB_MAX = 30 };
#endif

/* 200 stacks of 1 MiB at once; ten are kept, and none after the end. */
static void the_pool_is_bounded(void)
{
    enum { COUNT = 200 };
    mr_fiber *fibers[COUNT];
    mr_event *event;
    mr_carriers_options options = {.carriers = 1, .stack_size_bytes = 1 << 20, .stacks_kept = 10};
    CHECK_EQ(mr_carriers_start(&options), 0);
    CHECK_EQ(mr_event_create(&event), 0);
    on_fiber(use_the_loop, NULL); /* malloc maps a heap for the carrier */
    unsigned before = mapped_kilobytes();
    for (int i = 0; i < COUNT; i++)
        fibers[i] = spawn(wait_for_event, event);
    CHECK_GE(mapped_kilobytes() - before, 150 * 1024);
    mr_event_set(event);
    for (int i = 0; i < COUNT; i++)
        join(fibers[i]);
    on_fiber(touch_bytes, (void *)1); /* the last one's stack is given back after its join */
    CHECK_LE(mapped_kilobytes(), before + KEPT_MIB_MAX * 1024);
    mr_event_destroy(event);
    CHECK_EQ(mr_carriers_stop(), 0);
}

/* More stacks than vm.max_map_count would allow if each were two mappings; fewer if the kernel has no guard regions. */
static void very_many_fibers(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("TSan takes milliseconds to create a fiber");
#endif
    unsigned count = harness_rounds(40000);
    mr_fiber **fibers = calloc(count, sizeof *fibers);
    mr_event *event;
    mr_fiber_options options = {.stack_size_bytes = 16 * 1024};
    CHECK_EQ(mr_event_create(&event), 0);
    for (unsigned i = 0; i < count; i++) {
        int error = mr_fiber_spawn(&fibers[i], &options, wait_for_event, event);
        if (error == -ENOMEM && i >= 30000)
            count = i;
        else
            CHECK_EQ(error, 0);
    }
    mr_event_set(event);
    for (unsigned i = 0; i < count; i++)
        join(fibers[i]);
    free(fibers);
    mr_event_destroy(event);
    CHECK_EQ(mr_carriers_stop(), 0);
}

const fiber_case stack_cases[] = {
    CASE(a_size_for_each_spawn),
    CASE(overflow_is_reported_by_name),
    CASE(a_large_frame_does_not_step_over_the_guard),
    CASE(overflow_where_a_fiber_is_a_thread),
    CASE(other_faults_are_left_alone),
    CASE(a_fault_that_was_sent_ends_the_process),
    CASE(a_fault_that_was_sent_and_is_ignored_changes_nothing),
    CASE(the_programs_own_handler_still_runs),
    CASE(memory_is_committed_as_it_is_touched),
    CASE(memory_of_kept_stacks_is_bounded),
    CASE(the_pool_is_bounded),
    CASE(very_many_fibers),
    {0},
};
