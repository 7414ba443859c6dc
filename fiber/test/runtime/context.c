/* context.c: what a switch of stacks must preserve. */
#include "runtime_test.h"

#include <fenv.h>

/* More live values than there are registers, integers and floating point, across every kind of switch. */
static void *keep_registers(void *argument)
{
    volatile uintptr_t seed = (uintptr_t)argument;
    uintptr_t n[12];
    double x[12];
    for (int i = 0; i < 12; i++) {
        n[i] = seed * 31 + (uintptr_t)i;
        x[i] = (double)seed / (i + 1);
    }
    for (int round = 0; round < 30; round++) {
        mr_fiber_yield();
        for (int i = 0; i < 12; i++) {
            CHECK_EQ(n[i], seed * 31 + (uintptr_t)i);
            CHECK(x[i] == (double)seed / (i + 1));
        }
    }
    return NULL;
}

static void registers(void)
{
    mr_fiber *fibers[20];
    start_carriers(1);
    for (int i = 0; i < 20; i++)
        fibers[i] = spawn(keep_registers, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < 20; i++)
        join(fibers[i]);
}

static void *keep_rounding(void *argument)
{
    int mode = (int)(intptr_t)argument;
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fesetround(mode);
    for (int i = 0; i < 10; i++) {
        mr_fiber_yield();
        CHECK_EQ(fegetround(), mode);
    }
    return NULL;
}

static void rounding_mode_is_the_fibers_own(void)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    mr_fiber *fibers[4];
    start_carriers(1);
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(keep_rounding, (void *)(intptr_t)modes[i]);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
}

/* Instructions that need 16-byte alignment fail on a misaligned stack. */
static void *check_alignment(void *argument)
{
    (void)argument;
    _Alignas(16) volatile char aligned[16];
    CHECK_EQ((uintptr_t)aligned % 16, 0);
    char text[64];
    snprintf(text, sizeof text, "%.3f %Lf", 1.5, 2.5L); /* stores vector registers */
    CHECK_EQ(strcmp(text, "1.500 2.500000"), 0);
    return NULL;
}

static void alignment(void)
{
    on_fiber(check_alignment, NULL);
}

const fiber_case context_cases[] = {
    CASE(registers),
    CASE(rounding_mode_is_the_fibers_own),
    CASE(alignment),
    {0},
};
