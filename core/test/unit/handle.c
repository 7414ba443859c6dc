/* handle.c: the table of adopted descriptors, its generations and its protocol for closing. */
#include "../../src/handle.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Too large for a stack under a sanitizer. */
static mr_handle_table *new_table(void)
{
    mr_handle_table *table = calloc(1, sizeof *table);
    CHECK(table != NULL);
    return table;
}

static void free_table(mr_handle_table *table)
{
    mr_handle_table_free(table);
    free(table);
}

static mr_handle adopt(mr_handle_table *table, int descriptor)
{
    mr_handle handle;
    CHECK_EQ(mr_handle_adopt(table, descriptor, &handle), 0);
    CHECK_EQ(mr_handle_descriptor(handle), descriptor);
    CHECK_NE(mr_handle_generation(handle), 0);
    return handle;
}

/* Closes with a single holder. */
static void close_alone(mr_handle_table *table, mr_handle handle)
{
    uint64_t loops;
    mr_token closer;
    CHECK_EQ(mr_handle_begin_close(table, handle, 99, &loops), 0);
    CHECK(mr_handle_release(table, handle, &closer));
    CHECK_EQ(closer, 99);
    mr_handle_finish_close(table, handle);
}

static void a_number_gets_a_new_generation_each_time(uintptr_t unused)
{
    mr_handle_table *table = new_table();
    mr_handle last = 0;
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        mr_handle handle = adopt(table, 7);
        CHECK_NE(handle, last);
        CHECK_EQ(mr_handle_join(table, handle, 0), 0);
        if (last)
            CHECK_EQ(mr_handle_join(table, last, 0), -EBADF);
        close_alone(table, handle);
        CHECK_EQ(mr_handle_join(table, handle, 0), -EBADF);
        last = handle;
    }
    free_table(table);
}

static void foreign_handles_have_no_generation(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(mr_handle_generation(mr_handle_foreign(7)), 0);
    CHECK_EQ(mr_handle_descriptor(mr_handle_foreign(7)), 7);
    CHECK_EQ(mr_handle_descriptor(mr_handle_foreign(-1)), -1);
}

static void mistaken_handles_are_refused(uintptr_t unused)
{
    mr_handle_table *table = new_table();
    mr_handle handle;
    uint64_t loops;
    (void)unused;
    CHECK_EQ(mr_handle_adopt(table, -1, &handle), -EBADF);
    CHECK_EQ(mr_handle_join(table, UINT64_C(1) << 32 | 5, 0), -EBADF);
    CHECK_EQ(mr_handle_join(table, UINT64_C(1) << 32 | 0x7fffffff, 0), -EBADF);
    CHECK_EQ(mr_handle_begin_close(table, UINT64_C(1) << 32 | 5, 1, &loops), -EBADF);
    adopt(table, 5);
    CHECK_EQ(mr_handle_join(table, mr_handle_foreign(5), 0), -EBADF);
    free_table(table);
}

static void joining_is_remembered_until_the_close(uintptr_t unused)
{
    mr_handle_table *table = new_table();
    mr_handle handle = adopt(table, 10);
    uint64_t loops;
    (void)unused;
    CHECK_EQ(mr_handle_join(table, handle, 0), 0);
    CHECK_EQ(mr_handle_join(table, handle, 3), 0);
    CHECK_EQ(mr_handle_join(table, handle, 3), 0);
    CHECK_EQ(mr_handle_join(table, handle, 64 + 5), 0);
    CHECK_EQ(mr_handle_begin_close(table, handle, 1, &loops), 0);
    CHECK_EQ(loops, 1 | 8 | 32);
    CHECK_EQ(mr_handle_join(table, handle, 1), -EBADF);
    CHECK_EQ(mr_handle_begin_close(table, handle, 2, &loops), -EBADF);
    free_table(table);
}

static void the_last_release_closes(uintptr_t unused)
{
    mr_handle_table *table = new_table();
    mr_handle handle = adopt(table, 7);
    uint64_t loops;
    mr_token closer = 0;
    (void)unused;
    CHECK_EQ(mr_handle_begin_close(table, handle, 1234, &loops), 0);
    mr_handle_add_holders(table, handle, 2);
    CHECK(!mr_handle_release(table, handle, &closer));
    CHECK(!mr_handle_release(table, handle, &closer));
    CHECK_EQ(mr_handle_begin_close(table, handle, 5, &loops), -EBADF);
    CHECK(mr_handle_release(table, handle, &closer));
    CHECK_EQ(closer, 1234);
    mr_handle_finish_close(table, handle);
    CHECK_EQ(mr_handle_join(table, handle, 0), -EBADF);
    free_table(table);
}

static void a_call_that_holds_comes_before_the_close(uintptr_t unused)
{
    mr_handle_table *table = new_table();
    mr_handle handle = adopt(table, 7);
    uint64_t loops;
    mr_token closer = 0;
    (void)unused;
    CHECK_EQ(mr_handle_hold(table, handle), 0);
    CHECK_EQ(mr_handle_hold(table, handle), 0);
    CHECK(!mr_handle_release(table, handle, &closer)); /* nobody closes */
    CHECK_EQ(mr_handle_begin_close(table, handle, 1234, &loops), 0);
    CHECK_EQ(mr_handle_hold(table, handle), -EBADF);
    CHECK(!mr_handle_release(table, handle, &closer)); /* the closer's own */
    CHECK(mr_handle_release(table, handle, &closer));
    CHECK_EQ(closer, 1234);
    mr_handle_finish_close(table, handle);
    CHECK_EQ(mr_handle_hold(table, handle), -EBADF);
    close_alone(table, adopt(table, 7));
    free_table(table);
}

typedef struct contender {
    mr_handle_table *table;
    const mr_handle *handles;
    size_t count;
    atomic_bool *go;
    unsigned won;
} contender;

static void *contend(void *argument)
{
    contender *c = argument;
    while (!atomic_load(c->go))
        ;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t loops;
        mr_handle_join(c->table, c->handles[i], 1);
        if (mr_handle_begin_close(c->table, c->handles[i], 5, &loops) == 0) {
            mr_token closer;
            c->won++;
            CHECK(mr_handle_release(c->table, c->handles[i], &closer));
            mr_handle_finish_close(c->table, c->handles[i]);
        }
    }
    return NULL;
}

static void only_one_may_close(uintptr_t unused)
{
    enum { COUNT = 500, THREADS = 3 };
    mr_handle_table *table = new_table();
    static mr_handle handles[COUNT];
    contender contenders[THREADS];
    pthread_t threads[THREADS];
    atomic_bool go = false;
    unsigned won = 0;
    (void)unused;
    for (int i = 0; i < COUNT; i++)
        handles[i] = adopt(table, 10 + i);
    for (int i = 0; i < THREADS; i++) {
        contenders[i] = (contender){table, handles, COUNT, &go, 0};
        CHECK_EQ(pthread_create(&threads[i], NULL, contend, &contenders[i]), 0);
    }
    atomic_store(&go, true);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        won += contenders[i].won;
    }
    CHECK_EQ(won, COUNT);
    free_table(table);
}

const harness_test handle_tests[] = {
    UNIT(handle, a_number_gets_a_new_generation_each_time),
    UNIT(handle, foreign_handles_have_no_generation),
    UNIT(handle, mistaken_handles_are_refused),
    UNIT(handle, joining_is_remembered_until_the_close),
    UNIT(handle, the_last_release_closes),
    UNIT(handle, a_call_that_holds_comes_before_the_close),
    UNIT(handle, only_one_may_close),
    {0},
};
