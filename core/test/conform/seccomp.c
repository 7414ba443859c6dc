/* seccomp.c: which backend is used on Linux, also where system calls are forbidden. */
#include "conform.h"
#include "../system/filter.h"

#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static mr_backend backend_of_new_group(mr_backend requested)
{
    mr_group *group;
    CHECK_EQ(mr_group_create(requested, &group), 0);
    mr_backend backend = mr_group_backend(group);
    mr_group_destroy(group);
    return backend;
}

/* A round trip on the chosen backend. */
static void check_that_it_works(mr_backend expected)
{
    char byte;
    conform_backend = expected;
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), expected);
    connection c = local_connection();
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    run_for_ms(c.d, 2);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

/* From now on, one system call of this process has the result `action`. */
static void filter(unsigned system_call, unsigned action)
{
    int error = filter_system_call(system_call, action);
    if (error == -ENOTSUP)
        SKIP("no system call filter for this processor");
    if (error == -EINVAL)
        SKIP("this system takes no system call filters, as QEMU's user-mode emulation");
    CHECK_EQ(error, 0);
}

static void require(mr_backend backend)
{
    char reason[256];
    if (mr_backend_probe(backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
}

static void the_preferred_one_is_hybrid(void)
{
    require(MR_BACKEND_HYBRID);
    set_variable("MILLRACE_BACKEND", NULL);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_HYBRID);
}

static void loops_of_one_thread_each_prefer_io_uring(void)
{
    mr_group *group;
    require(MR_BACKEND_IO_URING);
    set_variable("MILLRACE_BACKEND", NULL);
    CHECK_EQ(mr_group_create_with_owned_loops(MR_BACKEND_AUTO, 0, NULL, &group), 0);
    CHECK_EQ(mr_group_backend(group), MR_BACKEND_IO_URING);
    mr_group_destroy(group);
}

static void the_environment_decides(void)
{
    set_variable("MILLRACE_BACKEND", "epoll");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_EPOLL);
    require(MR_BACKEND_IO_URING);
    set_variable("MILLRACE_BACKEND", "io_uring");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_IO_URING);
    set_variable("MILLRACE_BACKEND", "auto");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_HYBRID);
    set_variable("MILLRACE_BACKEND", "");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_HYBRID);
}

static void the_argument_comes_before_the_environment(void)
{
    set_variable("MILLRACE_BACKEND", "io_uring");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
    set_variable("MILLRACE_BACKEND", "nonsense");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
}

static void a_refusal_falls_back(unsigned system_call, int error)
{
    mr_group *group;
    char reason[256] = "";
    set_variable("MILLRACE_BACKEND", NULL);
    filter(system_call, SECCOMP_RET_ERRNO | (unsigned)error);
    check_that_it_works(MR_BACKEND_EPOLL);
    CHECK_LT(mr_backend_probe(MR_BACKEND_IO_URING, reason, sizeof reason), 0);
    CHECK_NE(reason[0], 0);
    if (system_call == SYS_io_uring_setup)
        CHECK_EQ(mr_backend_probe(MR_BACKEND_IO_URING, NULL, 0), -error);
    CHECK_LT(mr_group_create(MR_BACKEND_IO_URING, &group), 0);
    set_variable("MILLRACE_BACKEND", "io_uring");
    CHECK_LT(mr_group_create(MR_BACKEND_AUTO, &group), 0);
}

static void eperm_falls_back(void)
{
    a_refusal_falls_back(SYS_io_uring_setup, EPERM);
}

static void enosys_falls_back(void)
{
    a_refusal_falls_back(SYS_io_uring_setup, ENOSYS);
}

static void enomem_falls_back(void)
{
    a_refusal_falls_back(SYS_io_uring_setup, ENOMEM);
}

/* Profiles that allow the set-up but not its use. */
static void a_forbidden_register_falls_back(void)
{
    a_refusal_falls_back(SYS_io_uring_register, EPERM);
}

static void a_forbidden_enter_falls_back(void)
{
    a_refusal_falls_back(SYS_io_uring_enter, EPERM);
}

/* A profile may kill a process that calls io_uring_setup; a process that names another backend must live. */
static void epoll_by_name_never_touches_io_uring(void)
{
    set_variable("MILLRACE_BACKEND", "epoll");
    filter(SYS_io_uring_setup, SECCOMP_RET_KILL_PROCESS);
    check_that_it_works(MR_BACKEND_EPOLL);
    set_variable("MILLRACE_BACKEND", NULL);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
}

/* A probe needs less of RLIMIT_MEMLOCK than a loop does, on kernels that count the memory of rings. Root has no
   limit. */
static void too_little_memory_for_all_loops_falls_back(void)
{
    enum { COUNT = 4, NOBODY = 65534 };
    mr_group *group;
    mr_loop *loops[COUNT];
    const struct rlimit limit = {65536, 65536};
    require(MR_BACKEND_IO_URING);
    set_variable("MILLRACE_BACKEND", NULL);
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0)
        CHECK_EQ(setuid(NOBODY), 0);
    int before = open_descriptors();
    if (mr_group_create_with_loops(MR_BACKEND_IO_URING, COUNT, loops, &group) == 0)
        SKIP("this kernel does not count the memory of rings");
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(mr_group_create_with_loops(MR_BACKEND_AUTO, COUNT, loops, &group), 0);
    CHECK_EQ(mr_group_backend(group), MR_BACKEND_EPOLL);
    for (unsigned i = 0; i < COUNT; i++)
        mr_loop_destroy(loops[i]);
    mr_group_destroy(group);
    CHECK_EQ(open_descriptors(), before);
}

const conform_case seccomp_cases[] = {
    CASE(the_preferred_one_is_hybrid),
    CASE(loops_of_one_thread_each_prefer_io_uring),
    CASE(the_environment_decides),
    CASE(the_argument_comes_before_the_environment),
    CASE(eperm_falls_back),
    CASE(enosys_falls_back),
    CASE(enomem_falls_back),
    CASE(a_forbidden_register_falls_back),
    CASE(a_forbidden_enter_falls_back),
    CASE(epoll_by_name_never_touches_io_uring),
    CASE(too_little_memory_for_all_loops_falls_back),
    {0},
};
