/* signal.c: the mask of signals, which is each fiber's own, and raising one. */
#include "../mask.h"
#include "../carrier.h"
#include "libc.h"

/* Between mr_fiber_enter_thread and mr_fiber_leave_thread the mask is the carrier's. */
static void note_change(int how, const sigset_t *set)
{
    if (mf_current)
        mf_mask_note_change(how, set);
    else if (mf_this_carrier)
        mf_this_carrier->blocked_signals = mf_mask_of_thread();
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    int error = LIBC(pthread_sigmask)(how, set, before);
    if (set && !error)
        note_change(how, set);
    return error;
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    int result = LIBC(sigprocmask)(how, set, before);
    if (set && result == 0)
        note_change(how, set);
    return result;
}

static bool is_blocked_by_program(int signal_number)
{
    return signal_number > 0 && signal_number <= 64 && (mf_carrier_programs_mask() & MF_MASK_BIT(signal_number));
}

/* What only the carrier blocks, its fibers do not. A fiber that has changed its mask is taken at its word. */
int raise(int signal_number)
{
    sigset_t one, before;
    if (!mf_current || mf_current->mask.is_own || is_blocked_by_program(signal_number))
        return LIBC(raise)(signal_number);
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    LIBC(pthread_sigmask)(SIG_UNBLOCK, &one, &before);
    int result = LIBC(raise)(signal_number);
    LIBC(pthread_sigmask)(SIG_SETMASK, &before, NULL);
    return result;
}
