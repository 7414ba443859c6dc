/* choice.c: which backend is used, also where system calls are forbidden. */
#include "conform.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* From here on, this process gets `action` for one system call. */
static void filter_system_call(unsigned number, unsigned action)
{
#ifdef THIS_ARCHITECTURE
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
#else
    (void)number, (void)action;
    SKIP("no system call filter for this processor");
#endif
}

static void require(mr_backend backend)
{
    char reason[256];
    if (mr_backend_probe(backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
}

static mr_backend backend_of_new_group(mr_backend requested)
{
    mr_group *group;
    CHECK_EQ(mr_group_create(requested, &group), 0);
    mr_backend backend = mr_group_backend(group);
    mr_group_destroy(group);
    return backend;
}

/* A round trip on whatever is chosen. */
static void check_that_it_works(mr_backend expected)
{
    int pair[2];
    char byte;
    conform_backend = expected;
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), expected);
    driver *d = driver_new();
    unix_pair(pair);
    mr_token token = start(d, recv_request(adopt(d, pair[0]), &byte, 1));
    run_for_ms(d, 2);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

static void names_and_back(void)
{
    for (mr_backend backend = MR_BACKEND_AUTO; backend < MR_BACKEND_COUNT; backend++) {
        mr_backend parsed;
        CHECK_EQ(mr_backend_parse(mr_backend_name(backend), &parsed), 0);
        CHECK_EQ(parsed, backend);
    }
    mr_backend parsed;
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_AUTO), "auto"), 0);
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_IO_URING), "io_uring"), 0);
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_EPOLL), "epoll"), 0);
    CHECK(mr_backend_name((mr_backend)77) != NULL);
    CHECK_EQ(mr_backend_parse("", &parsed), -EINVAL);
    CHECK_EQ(mr_backend_parse("Epoll", &parsed), -EINVAL);
    CHECK_EQ(mr_backend_parse("epoll ", &parsed), -EINVAL);
}

static void the_preferred_one_is_io_uring(void)
{
    require(MR_BACKEND_IO_URING);
    unsetenv("MILLRACE_BACKEND");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_IO_URING);
}

static void the_environment_decides(void)
{
    setenv("MILLRACE_BACKEND", "epoll", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_EPOLL);
    require(MR_BACKEND_IO_URING);
    setenv("MILLRACE_BACKEND", "io_uring", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_IO_URING);
    setenv("MILLRACE_BACKEND", "auto", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_IO_URING);
    setenv("MILLRACE_BACKEND", "", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_AUTO), MR_BACKEND_IO_URING);
}

static void the_argument_comes_before_the_environment(void)
{
    setenv("MILLRACE_BACKEND", "io_uring", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
    setenv("MILLRACE_BACKEND", "nonsense", 1);
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
}

static void a_wrong_name_is_an_error(void)
{
    mr_group *group;
    mr_backend chosen;
    setenv("MILLRACE_BACKEND", "iouring", 1);
    CHECK_EQ(mr_group_create(MR_BACKEND_AUTO, &group), -EINVAL);
    CHECK_EQ(mr_backend_choose(MR_BACKEND_AUTO, &chosen), -EINVAL);
}

static void no_such_backend_is_an_error(void)
{
    mr_group *group;
    char reason[100] = "";
    CHECK_EQ(mr_backend_probe((mr_backend)99, reason, sizeof reason), -EINVAL);
    CHECK_NE(reason[0], 0);
    CHECK_EQ(mr_backend_probe((mr_backend)99, NULL, 0), -EINVAL);
    CHECK_EQ(mr_group_create((mr_backend)99, &group), -EINVAL);
}

static void a_refusal_falls_back(unsigned system_call, int error)
{
    mr_group *group;
    char reason[256] = "";
    unsetenv("MILLRACE_BACKEND");
    filter_system_call(system_call, SECCOMP_RET_ERRNO | (unsigned)error);
    check_that_it_works(MR_BACKEND_EPOLL);
    CHECK_LT(mr_backend_probe(MR_BACKEND_IO_URING, reason, sizeof reason), 0);
    CHECK_NE(reason[0], 0);
    if (system_call == SYS_io_uring_setup)
        CHECK_EQ(mr_backend_probe(MR_BACKEND_IO_URING, NULL, 0), -error);
    CHECK_LT(mr_group_create(MR_BACKEND_IO_URING, &group), 0);
    setenv("MILLRACE_BACKEND", "io_uring", 1);
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

/* A profile may kill for io_uring_setup; whoever names another backend must live. */
static void epoll_by_name_never_touches_io_uring(void)
{
    setenv("MILLRACE_BACKEND", "epoll", 1);
    filter_system_call(SYS_io_uring_setup, SECCOMP_RET_KILL_PROCESS);
    check_that_it_works(MR_BACKEND_EPOLL);
    unsetenv("MILLRACE_BACKEND");
    CHECK_EQ(backend_of_new_group(MR_BACKEND_EPOLL), MR_BACKEND_EPOLL);
}

static void probing_leaves_nothing_behind(void)
{
    int before = open_descriptors();
    for (int i = 0; i < 10; i++)
        for (mr_backend backend = MR_BACKEND_AUTO; backend < MR_BACKEND_COUNT; backend++)
            mr_backend_probe(backend, NULL, 0);
    CHECK_EQ(open_descriptors(), before);
}

const conform_case choice_cases[] = {
    CASE(names_and_back),
    CASE(the_preferred_one_is_io_uring),
    CASE(the_environment_decides),
    CASE(the_argument_comes_before_the_environment),
    CASE(a_wrong_name_is_an_error),
    CASE(no_such_backend_is_an_error),
    CASE(eperm_falls_back),
    CASE(enosys_falls_back),
    CASE(enomem_falls_back),
    CASE(a_forbidden_register_falls_back),
    CASE(a_forbidden_enter_falls_back),
    CASE(epoll_by_name_never_touches_io_uring),
    CASE(probing_leaves_nothing_behind),
    {0},
};
