/*
 * pthread_barrier.c: pthread's barriers. Each fiber that waits gets a new helper thread, because libc does not tell how
 * many participants are still missing.
 */
#include "../carrier.h"
#include "../offload.h"
#include "libc.h"

MF_ALWAYS_LINKED(pthread_barrier);

typedef struct barrier_call {
    pthread_barrier_t *barrier;
    int result;
} barrier_call;

static void run_barrier_wait(void *argument)
{
    barrier_call *call = argument;
    call->result = LIBC(pthread_barrier_wait)(call->barrier);
}

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    if (!mf_current)
        return LIBC(pthread_barrier_wait)(barrier);
    barrier_call call = {.barrier = barrier};
    mf_offload_to_new_thread(run_barrier_wait, &call);
    return call.result;
}
