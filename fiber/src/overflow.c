/*
 * overflow.c: the handler of SIGSEGV. It runs on its own stack, because the fiber's stack is full. It passes everything
 * except the overflow of a fiber's stack to the previous handler.
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

static void report_overflow(const mr_fiber *fiber)
{
    char message[160];
    int length = snprintf(message, sizeof message, "millrace: stack overflow on fiber \"%s\" (stack of %zu bytes)\n",
                          fiber->name, fiber->stack.size_bytes);
    ssize_t written = write(STDERR_FILENO, message, (size_t)length);
    (void)written;
}

/* True if raise, kill or the like has sent the signal. */
static bool was_sent(const siginfo_t *info)
{
    return info->si_code <= 0;
}

/* Restores the default action. A failed instruction is then repeated. A signal that was sent is sent again; it stays
 * blocked until this handler has returned. */
static void end_by_default(int signal_number, const siginfo_t *info)
{
    if (previous.sa_handler == SIG_IGN && was_sent(info))
        return;
    sigaction(signal_number, &previous, NULL);
    if (was_sent(info))
        raise(signal_number);
}

/* Calls the previous handler, if there was one. */
static void call_previous(int signal_number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal_number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(signal_number);
    else
        end_by_default(signal_number, info);
}

/* Must not call functions that park, because the fiber would leave the signal stack. */
static void handle(int signal_number, siginfo_t *info, void *context)
{
    mr_fiber *fiber = mf_enter_core(); /* NULL also if the fiber is inside the core */
    mr_fiber *running = mf_this_carrier ? atomic_load(&mf_this_carrier->running) : NULL;
    if (running && mf_stack_guards(&running->stack, info->si_addr))
        report_overflow(running);
    call_previous(signal_number, info, context);
    mf_leave_core(fiber);
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
