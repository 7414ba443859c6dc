/* choice.c: the names of backends, and which of them are available. */
#include "conform.h"

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
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_HYBRID), "hybrid"), 0);
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_KQUEUE), "kqueue"), 0);
    CHECK_EQ(strcmp(mr_backend_name(MR_BACKEND_IOCP), "iocp"), 0);
    CHECK(mr_backend_name((mr_backend)77) != NULL);
    CHECK_EQ(mr_backend_parse("", &parsed), -EINVAL);
    CHECK_EQ(mr_backend_parse("Epoll", &parsed), -EINVAL);
    CHECK_EQ(mr_backend_parse("epoll ", &parsed), -EINVAL);
}

static void a_wrong_name_is_an_error(void)
{
    mr_group *group;
    mr_backend chosen;
    set_variable("MILLRACE_BACKEND", "iouring");
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

static void a_backend_of_another_system_is_refused(void)
{
    unsigned refused = 0;
    for (mr_backend backend = MR_BACKEND_AUTO + 1; backend < MR_BACKEND_COUNT; backend++) {
        mr_group *group;
        char reason[100] = "";
        if (mr_backend_probe(backend, reason, sizeof reason) != -ENOTSUP)
            continue;
        CHECK(strstr(reason, mr_backend_name(backend)));
        CHECK_EQ(mr_group_create(backend, &group), -ENOTSUP);
        refused++;
    }
    CHECK_GT(refused, 0); /* no system has all of them */
}

static void probing_leaves_nothing_behind(void)
{
    int before = open_descriptors();
    for (int i = 0; i < 10; i++)
        for (mr_backend backend = MR_BACKEND_AUTO; backend < MR_BACKEND_COUNT; backend++)
            mr_backend_probe(backend, NULL, 0);
    CHECK_EQ(open_descriptors(), before);
}

/* An automatic choice: the rings of many loops may need more memory than the system has. */
static void a_group_may_come_with_loops(void)
{
    enum { COUNT = 3 };
    int before = open_descriptors();
    mr_group *group;
    mr_loop *loops[COUNT + 1];
    CHECK_EQ(mr_group_create_with_loops(MR_BACKEND_AUTO, COUNT, loops, &group), 0);
    CHECK_EQ(mr_loop_create(group, &loops[COUNT]), 0);
    for (unsigned i = 0; i <= COUNT; i++) {
        CHECK_EQ(mr_loop_index(loops[i]), i);
        mr_loop_destroy(loops[i]);
    }
    mr_group_destroy(group);
    CHECK_EQ(open_descriptors(), before);
}

const conform_case choice_cases[] = {
    CASE(names_and_back),
    CASE(a_wrong_name_is_an_error),
    CASE(no_such_backend_is_an_error),
    CASE(a_backend_of_another_system_is_refused),
    CASE(probing_leaves_nothing_behind),
    CASE(a_group_may_come_with_loops),
    {0},
};
