/*
 * overflow.c: the handler of SIGSEGV. It runs on a stack of its own, because the fiber's is used up, and hands
 * everything but the overflow of a fiber's stack to whoever handled SIGSEGV before.
 */
#include "overflow.h"
#include "carrier.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* With the former action in force again, the instruction that failed is repeated and fails as it would have without us. */
static void hand_over(void)
{
    sigaction(SIGSEGV, &previous, NULL);
}

static void handle(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)context;
    mr_fiber *fiber = mf_enter_core(); /* write is shadowed */
    if (fiber && mf_stack_guards(&fiber->stack, info->si_addr)) {
        char message[160];
        int length = snprintf(message, sizeof message, "millrace: stack overflow on fiber \"%s\" (stack of %zu bytes)\n",
                              fiber->name, fiber->stack.size_bytes);
        ssize_t written = write(STDERR_FILENO, message, (size_t)length);
        (void)written;
    }
    mf_leave_core(fiber);
    hand_over();
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &previous);
}

void mf_overflow_watch_thread(void *signal_stack)
{
    sigaltstack(&(stack_t){.ss_sp = signal_stack, .ss_size = MF_SIGNAL_STACK_BYTES}, NULL);
    pthread_once(&installed, install);
}

void mf_overflow_unwatch_thread(void)
{
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
}
