/* terminal.c: reads of terminals with a minimum of bytes (VMIN) or a time limit (VTIME). */
#include "interpose_test.h"

#include <pty.h>
#include <termios.h>

typedef struct terminal {
    int user, own;
} terminal;

enum { TENTHS = PAUSE_MS / 100 };

static terminal new_terminal(unsigned char least_bytes, unsigned char tenths)
{
    terminal t;
    struct termios settings;
    MUST(openpty(&t.user, &t.own, NULL, NULL, NULL));
    MUST(tcgetattr(t.own, &settings));
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = least_bytes;
    settings.c_cc[VTIME] = tenths;
    MUST(tcsetattr(t.own, TCSANOW, &settings));
    return t;
}

static void close_terminal(const terminal *t)
{
    MUST(close(t->user));
    MUST(close(t->own));
}

static void *read_nothing(void *argument)
{
    char bytes[8];
    errno = 0;
    CHECK_EQ(read(((terminal *)argument)->own, bytes, sizeof bytes), 0);
    CHECK_EQ(errno, 0);
    return NULL;
}

static void a_read_that_never_waits(void)
{
    terminal t = new_terminal(0, 0);
    on_fiber(read_nothing, &t);
    close_terminal(&t);
}

static void a_read_that_waits_for_a_while(void)
{
    terminal t = new_terminal(0, TENTHS);
    uint64_t begin_ns = mr_clock_now_ns();
    must_leave_carrier_free(read_nothing, &t);
    CHECK_GE(mr_clock_now_ns() - begin_ns, (TENTHS - 1) * 100 * NS_PER_MS);
    close_terminal(&t);
}

static void *read_the_end_of_a_stream(void *argument)
{
    FILE *stream = fdopen(dup(((terminal *)argument)->own), "r");
    CHECK(stream);
    CHECK_EQ(fgetc(stream), EOF);
    CHECK(feof(stream));
    CHECK_EQ(fclose(stream), 0);
    return NULL;
}

static void a_stream_of_one_that_never_waits(void)
{
    terminal t = new_terminal(0, 0);
    on_fiber(read_the_end_of_a_stream, &t);
    close_terminal(&t);
}

static void *read_two(void *argument)
{
    char bytes[2];
    CHECK_EQ(read(((terminal *)argument)->own, bytes, sizeof bytes), 2);
    CHECK_MEMORY(bytes, "ab", 2);
    return NULL;
}

/* poll waits for the minimum. */
static void a_read_of_less_than_the_minimum(void)
{
    terminal t = new_terminal(5, 0);
    mr_fiber *fiber = spawn(read_two, &t);
    let_fibers_park();
    MUST(write(t.user, "ab", 2));
    join(fiber);
    close_terminal(&t);
}

static void *read_one_of_three(void *argument)
{
    char bytes[3];
    CHECK_EQ(read(((terminal *)argument)->own, bytes, sizeof bytes), 1);
    return NULL;
}

static void a_read_that_waits_for_what_follows(void)
{
    terminal t = new_terminal(3, TENTHS);
    MUST(write(t.user, "a", 1));
    must_leave_carrier_free(read_one_of_three, &t);
    close_terminal(&t);
}

static void *read_as_user(void *argument)
{
    char bytes[8];
    CHECK_EQ(read(((terminal *)argument)->user, bytes, sizeof bytes), 2);
    return NULL;
}

/* It returns the settings of the terminal. */
static void the_other_end_waits(void)
{
    terminal t = new_terminal(0, 0);
    mr_fiber *fiber = spawn(read_as_user, &t);
    let_fibers_park();
    MUST(write(t.own, "ab", 2));
    join(fiber);
    close_terminal(&t);
}

const fiber_case terminal_cases[] = {
    CASE(a_read_that_never_waits),
    CASE(a_read_that_waits_for_a_while),
    CASE(a_stream_of_one_that_never_waits),
    CASE(a_read_of_less_than_the_minimum),
    CASE(a_read_that_waits_for_what_follows),
    CASE(the_other_end_waits),
    {0},
};
