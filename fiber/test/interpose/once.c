/* once.c: initialization that is interrupted between its beginning and its end. */
#include "interpose_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's pthread_once ends only when the function returns")
#else
#define SKIP_UNDER_TSAN() (void)0
#endif

/* ------------------------------------------------------------------------------------ as std::call_once does it --- */

/* libstdc++ stores the function to call here, per thread. */
static void **callable_of_thread(void)
{
    static void *library;
    if (!library && !(library = dlopen("libstdc++.so.6", RTLD_NOW)))
        SKIP("no libstdc++: %s", dlerror());
    void **callable = dlsym(library, "_ZSt15__once_callable"), **call = dlsym(library, "_ZSt11__once_call");
    CHECK(callable && call);
    *call = (void *)1;
    return callable;
}

typedef struct initialization {
    pthread_once_t *control;
    mr_fiber *fiber, *ran_on;
} initialization;

static void run_what_was_put_down(void)
{
    initialization *own = *callable_of_thread();
    own->ran_on = mr_fiber_self();
    usleep(2000);
}

static void *initialize_as_put_down(void *argument)
{
    initialization *own = argument;
    own->fiber = mr_fiber_self();
    *callable_of_thread() = own;
    CHECK_EQ(pthread_once(own->control, run_what_was_put_down), 0);
    return NULL;
}

static atomic_bool thread_has_begun;

static void wait_to_be_cancelled(void)
{
    atomic_store(&thread_has_begun, true);
    while (true)
        pause();
}

static void *begin_in_vain(void *argument)
{
    pthread_once(argument, wait_to_be_cancelled);
    return NULL;
}

/* If a thread is cancelled, the initialization counts as not begun, as after an exception. */
static void another_that_waited_calls_its_own(void)
{
    pthread_once_t control = PTHREAD_ONCE_INIT;
    initialization first = {.control = &control}, second = {.control = &control};
    pthread_t thread;
    SKIP_UNDER_TSAN();
    callable_of_thread();
    CHECK_EQ(pthread_create(&thread, NULL, begin_in_vain, &control), 0);
    while (!atomic_load(&thread_has_begun))
        usleep(200);
    mr_fiber *one = spawn(initialize_as_put_down, &first), *other = spawn(initialize_as_put_down, &second);
    let_fibers_park();
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    join(one);
    join(other);
    CHECK_EQ(!!first.ran_on + !!second.ran_on, 1);
    CHECK(first.ran_on ? first.ran_on == first.fiber : second.ran_on == second.fiber);
}

/* ------------------------------------------------------------------------------------------------- in a process --- */

static pthread_once_t shared_control = PTHREAD_ONCE_INIT;
static int beginnings;

static void begin_slowly(void)
{
    beginnings++;
    usleep(500000); /* longer than a busy or emulated machine takes until the fork */
}

static void *initialize_slowly(void *argument)
{
    CHECK_EQ(pthread_once(&shared_control, begin_slowly), 0);
    return argument;
}

static void a_child_begins_anew(void)
{
    int status;
    SKIP_UNDER_TSAN();
    mr_fiber *fiber = spawn(initialize_slowly, NULL);
    let_fibers_park();
    pid_t child = MUST(fork());
    if (child == 0) {
        alarm(20);
        on_fiber(initialize_slowly, NULL);
        _exit(beginnings);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 2);
    join(fiber);
}

/* -------------------------------------------------------------------------------------------------- on a thread --- */

/* pthread.h declares them for old compilers only. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *, void (*)(void *), void *);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *, int);

static void clean_nothing(void *argument)
{
    (void)argument;
}

static struct _pthread_cleanup_buffer *last_cleanup(void)
{
    struct _pthread_cleanup_buffer own;
    _pthread_cleanup_push(&own, clean_nothing, NULL);
    _pthread_cleanup_pop(&own, 0);
    return own.__prev;
}

static void wait_long(void)
{
    usleep(20000);
}

static void wait_longer(void)
{
    usleep(30000);
}

static void *initialize_long(void *argument)
{
    pthread_once_t control = PTHREAD_ONCE_INIT;
    CHECK_EQ(pthread_once(&control, argument ? wait_longer : wait_long), 0);
    return NULL;
}

static void *check_cleanups(void *argument)
{
    CHECK(!last_cleanup());
    return argument;
}

/* A record that remained would be on a stack that other fibers use by then. */
static void initializers_that_take_turns_leave_no_cleanups(void)
{
    mr_fiber *one = spawn(initialize_long, NULL), *other = spawn(initialize_long, &beginnings);
    join(one);
    join(other);
    on_fiber(check_cleanups, NULL);
}

const fiber_case once_cases[] = {
    CASE(another_that_waited_calls_its_own),
    CASE(a_child_begins_anew),
    CASE(initializers_that_take_turns_leave_no_cleanups),
    {0},
};
