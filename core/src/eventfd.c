/* eventfd.c: see eventfd.h. */
#include "eventfd.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mr_eventfd_open(mr_loop *loop)
{
    loop->wake_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return loop->wake_descriptor < 0 ? -errno : 0;
}

void mr_eventfd_close(mr_loop *loop)
{
    close(loop->wake_descriptor);
}

void mr_eventfd_ring(mr_loop *loop)
{
    /* If it is full, a wake is pending already. EINTR cannot happen to a non-blocking eventfd. */
    ssize_t written = write(loop->wake_descriptor, &(uint64_t){1}, sizeof(uint64_t));
    (void)written;
}

void mr_eventfd_drain(mr_loop *loop)
{
    uint64_t count;
    mr_count(&loop->counters.system_calls, 1);
    ssize_t size = read(loop->wake_descriptor, &count, sizeof count);
    (void)size; /* EAGAIN: drained already */
}
