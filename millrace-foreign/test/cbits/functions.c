/* functions.c: C code for the tests to call. It uses no fibers, except in one function at the end. */
#include "millrace_fiber.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------- values --- */

double test_weigh(int8_t a, uint16_t b, int32_t c, uint64_t d, float e, double f, const char *g, int64_t h, uint8_t i,
                  int16_t j, uint32_t k)
{
    return a + b * 2.0 + c * 3.0 + (double)d * 4.0 + e * 5.0 + f * 6.0 + (double)strlen(g) * 7.0 + (double)h * 8.0 +
           i * 9.0 + j * 10.0 + k * 11.0;
}

int8_t test_int8(int8_t x)
{
    return x;
}
int16_t test_int16(int16_t x)
{
    return x;
}
int32_t test_int32(int32_t x)
{
    return x;
}
int64_t test_int64(int64_t x)
{
    return x;
}
uint8_t test_word8(uint8_t x)
{
    return x;
}
uint16_t test_word16(uint16_t x)
{
    return x;
}
uint32_t test_word32(uint32_t x)
{
    return x;
}
uint64_t test_word64(uint64_t x)
{
    return x;
}
float test_float(float x)
{
    return x;
}
double test_double(double x)
{
    return x;
}
void *test_pointer(void *x)
{
    return x;
}

/* Touches so much of its stack. */
int test_use_stack(size_t bytes)
{
    volatile char frame[bytes];
    for (size_t i = 0; i < bytes; i += 4096)
        frame[i] = (char)i;
    return frame[0];
}

/* ------------------------------------------------------------------------------------------------------ waiting --- */

static atomic_int inside; /* calls of test_read_noting that have not returned */

/* A read that leaves behind what errno was, and says while it lasts. */
ssize_t test_read_noting(int descriptor, void *buffer, size_t size, int *error)
{
    atomic_fetch_add(&inside, 1);
    ssize_t count = read(descriptor, buffer, size);
    *error = count < 0 ? errno : 0;
    atomic_fetch_sub(&inside, 1);
    return count;
}

int test_inside(void)
{
    return atomic_load(&inside);
}

/* Goes on after every error; returns how many there were. */
int test_read_stubbornly(int descriptor)
{
    char byte;
    int errors = 0;
    while (read(descriptor, &byte, 1) < 0)
        errors++;
    return errors;
}

/* ---------------------------------------------------------------------------------------------------- callbacks --- */

/* Adds up what it returns for 1, 2, ..., with a wait before each. */
int64_t test_call_often(int64_t (*function)(int64_t), int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 1; i <= count; i++) {
        usleep(100);
        sum += function(i);
    }
    return sum;
}

/* Calls once, then waits; returns what errno the wait left, or 0, as the tens of what the function returned. */
int64_t test_call_then_read(int64_t (*function)(int64_t), int descriptor)
{
    char byte;
    int64_t result = function(7);
    return result + 1000 * (read(descriptor, &byte, 1) < 0 ? errno : 0);
}

double test_call_with_all(double (*function)(int8_t, uint16_t, int32_t, uint64_t, float, double, const char *))
{
    return function(-1, 60000, -3, UINT64_C(1) << 40, 1.5F, 2.25, "seven");
}

int test_call_for_int8(int8_t (*function)(int8_t), int x)
{
    return function((int8_t)x);
}

typedef struct thread_call {
    int64_t (*function)(int64_t);
    int64_t result;
} thread_call;

static void *call_on_thread(void *argument)
{
    thread_call *call = argument;
    call->result = call->function(5);
    return NULL;
}

int64_t test_call_from_thread(int64_t (*function)(int64_t))
{
    pthread_t thread;
    thread_call call = {.function = function};
    if (pthread_create(&thread, NULL, call_on_thread, &call) != 0)
        abort();
    pthread_join(thread, NULL);
    return call.result;
}

int64_t test_call_from_fiber_of_c(int64_t (*function)(int64_t))
{
    mr_fiber *fiber;
    thread_call call = {.function = function};
    if (mr_fiber_spawn(&fiber, NULL, call_on_thread, &call) != 0)
        abort();
    mr_fiber_join(fiber, NULL);
    return call.result;
}
