/* main.c: the tests of the interposed calls as a program, and what they share. */
#include "interpose_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifdef __SANITIZE_THREAD__
/* TSan reports it as a race if a thread closes a descriptor that another thread uses. These tests do so
 * deliberately. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:^close$\nrace:^dup2$\nrace:src/interpose/close.c\n";
}
#endif

int main(int argc, char **argv)
{
#define INTERPOSE_PLAN(file) plan_cases(#file, file##_cases);
    INTERPOSE_FILES(INTERPOSE_PLAN)
#undef INTERPOSE_PLAN
    return run_plan(ONE_CARRIER_OF_PLAN, argc, argv);
}

/* ------------------------------------------------------------------------------------------------ for the cases --- */

static atomic_bool stop_counting;

static void *count_periods(void *argument)
{
    unsigned *periods = argument;
    while (!atomic_load(&stop_counting)) {
        CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
        ++*periods;
    }
    return NULL;
}

void must_leave_carrier_free(void *(*run)(void *), void *argument)
{
    unsigned counted = 0;
    atomic_store(&stop_counting, false);
    mr_fiber *counter = spawn(count_periods, &counted);
    mr_fiber *fiber = spawn(run, argument);
    join(fiber);
    atomic_store(&stop_counting, true);
    join(counter);
    CHECK_GE(counted, 4); /* two are closed when everything has ended */
}

pair new_pair(void)
{
    pair p;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p.ends));
    return p;
}

void close_pair(pair *p)
{
    MUST(close(p->ends[0]));
    MUST(close(p->ends[1]));
}

int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    MUST(closedir(directory));
    return count;
}

bool is_glibc_since(int major, int minor)
{
    int loaded_major, loaded_minor;
    CHECK_EQ(sscanf(gnu_get_libc_version(), "%d.%d", &loaded_major, &loaded_minor), 2);
    return loaded_major > major || (loaded_major == major && loaded_minor >= minor);
}

bool has_robust_mutexes(void)
{
    void *head;
    size_t size;
    return syscall(SYS_get_robust_list, 0, &head, &size) == 0;
}

bool has_preadv2(void)
{
    return syscall(SYS_preadv2, -1, NULL, 0, 0, 0, 0) != -1 || errno != ENOSYS;
}

/* While a thread reads this file, it is in that read. */
bool has_own_system_calls_in_proc(void)
{
    char text[256] = "";
    int file = MUST(open("/proc/thread-self/syscall", O_RDONLY));
    long size = syscall(SYS_read, file, text, sizeof text - 1), number;
    MUST(close(file));
    return size > 0 && sscanf(text, "%ld", &number) == 1 && number == SYS_read;
}

int listen_on_loopback(struct sockaddr_in *address, int backlog)
{
    socklen_t size = sizeof *address;
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(listener, (struct sockaddr *)address, size));
    MUST(listen(listener, backlog));
    MUST(getsockname(listener, (struct sockaddr *)address, &size));
    return listener;
}
