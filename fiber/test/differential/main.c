/* main.c: every call x kind of descriptor x blocking mode x situation, on an OS thread and on a fiber, compared. */
#include "differential.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Help comes after HELP_MS; a call that took half of that has waited. */
enum { HELP_MS = 30, WAITED_MS = 12, TIMEOUT_MS = 30, TRIES = 15, COMBINATIONS_MAX = 256, NAME_MAX_BYTES = 96 };

static const char *const mode_names[MODES] = {"blocking", "nonblocking", "timeout"};
static const char *const situation_names[SITUATIONS] = {"idle", "ready", "full", "gone"};

static atomic_int broken_pipes;

static void count_broken_pipe(int signal_number)
{
    (void)signal_number;
    atomic_fetch_add(&broken_pipes, 1);
}

/* ------------------------------------------------------------------------------------------------------- worlds --- */

static void apply_mode(const kind *k, world *w)
{
    struct timeval limit = {.tv_usec = TIMEOUT_MS * 1000};
    if (w->mode == MODE_NONBLOCKING) {
        int flags = fcntl(w->descriptor, F_GETFL);
        if (flags >= 0)
            MUST(fcntl(w->descriptor, F_SETFL, flags | O_NONBLOCK));
    } else if (w->mode == MODE_TIMEOUT && k->is_socket) {
        MUST(setsockopt(w->descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
        MUST(setsockopt(w->descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    }
}

static void create(const kind *k, mode m, situation s, world *w)
{
    *w = (world){.descriptor = -1, .peer = -1, .mode = m};
    k->open(w);
    if (s == SITUATION_READY)
        k->make_ready(w);
    else if (s == SITUATION_FULL)
        k->make_full(w);
    else if (s == SITUATION_GONE)
        k->make_gone(w);
    apply_mode(k, w);
}

static void destroy(world *w)
{
    close(w->descriptor);
    if (w->peer >= 0)
        close(w->peer);
}

static bool exists(const kind *k, mode m, situation s)
{
    if (m == MODE_TIMEOUT && !k->is_socket)
        return false;
    switch (s) {
    case SITUATION_READY:
        return k->make_ready;
    case SITUATION_FULL:
        return k->make_full;
    case SITUATION_GONE:
        return k->make_gone;
    default:
        return true;
    }
}

/* --------------------------------------------------------------------------------------------------------- runs --- */

typedef struct run {
    const kind *kind;
    const call *call;
    world world;
    outcome outcome;
    atomic_bool has_begun;
    void (*help)(world *w);
} run;

/* Only blocking calls get help, and only if there is a peer. */
static void (*help_for(const kind *k, const call *c, mode m, situation s))(world *w)
{
    if (m != MODE_BLOCKING || s == SITUATION_GONE)
        return NULL;
    return c->need == NEED_READABLE ? k->help_reader : c->need == NEED_WRITABLE ? k->help_writer : NULL;
}

static void *perform(void *argument)
{
    run *r = argument;
    outcome *o = &r->outcome;
    atomic_store(&r->has_begun, true);
    uint64_t begin_ns = mr_clock_now_ns();
    errno = 0;
    r->call->perform(&r->world, o);
    o->error = errno;
    o->waited = !r->call->uses_disk && mr_clock_now_ns() - begin_ns >= WAITED_MS * UINT64_C(1000000);
    return NULL;
}

static void *help_later(void *argument)
{
    run *r = argument;
    while (!atomic_load(&r->has_begun))
        usleep(200);
    usleep(HELP_MS * 1000);
    r->help(&r->world);
    return NULL;
}

static void observe_effects(run *r, int pipes_before)
{
    outcome *o = &r->outcome;
    int readable = 0;
    o->signals = atomic_load(&broken_pipes) - pipes_before;
    o->flags = fcntl(r->world.descriptor, F_GETFL);
    if (ioctl(r->world.descriptor, FIONREAD, &readable) == 0)
        o->readable_bytes = readable;
    o->position = lseek(r->world.descriptor, 0, SEEK_CUR);
}

static void run_on_thread(run *r)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, perform, r), 0);
    pthread_join(thread, NULL);
}

static void run_on_fiber(run *r)
{
    mr_fiber *fiber;
    CHECK_EQ(mr_fiber_spawn(&fiber, NULL, perform, r), 0);
    CHECK_EQ(mr_fiber_join(fiber, NULL), 0);
}

static outcome run_one(const kind *k, const call *c, mode m, situation s, void (*where)(run *))
{
    run r = {.kind = k, .call = c, .help = help_for(k, c, m, s)};
    pthread_t helper;
    create(k, m, s, &r.world);
    int pipes_before = atomic_load(&broken_pipes);
    if (r.help)
        CHECK_EQ(pthread_create(&helper, NULL, help_later, &r), 0);
    where(&r);
    atomic_store(&r.world.call_is_over, true);
    if (r.help)
        pthread_join(helper, NULL);
    observe_effects(&r, pipes_before);
    destroy(&r.world);
    return r.outcome;
}

/* --------------------------------------------------------------------------------------------------- comparison --- */

/* Calls that would block for ever are not compared. A writing end never becomes readable, and a Unix datagram socket
 * does not notice that its peer has closed. */
static bool would_hang(const kind *k, const call *c, mode m, situation s)
{
    if (m != MODE_BLOCKING || c->need != NEED_READABLE)
        return false;
    if (strcmp(k->name, "pipe_writer") == 0)
        return s != SITUATION_GONE;
    return s == SITUATION_GONE && strcmp(k->name, "unix_datagram") == 0;
}

static void print_outcome(const char *where, const outcome *o)
{
    printf("    %-7s result %ld, errno %d (%s), %s, details %ld %ld %ld %ld, %d SIGPIPE, flags %#x, readable %ld, "
           "at %ld, data \"%.20s\"\n",
           where, o->result, o->error, strerror(o->error), o->waited ? "waited" : "did not wait", o->detail[0],
           o->detail[1], o->detail[2], o->detail[3], o->signals, o->flags, o->readable_bytes, o->position, o->data);
}

static bool are_equal(const outcome *a, const outcome *b)
{
    return a->result == b->result && a->error == b->error && a->waited == b->waited && a->signals == b->signals &&
           a->flags == b->flags && a->readable_bytes == b->readable_bytes && a->position == b->position &&
           memcmp(a->detail, b->detail, sizeof a->detail) == 0 && memcmp(a->data, b->data, DATA_BYTES) == 0;
}

/* On a loaded machine a thread may seem to wait, or help may come early. So outcomes count as equal if they are equal
 * once in many tries: a real difference appears every time. */
static bool compare(const kind *k, const call *c, mode m, situation s)
{
    outcome on_thread, on_fiber;
    for (int tries = 0; tries < TRIES; tries++) {
        on_thread = run_one(k, c, m, s, run_on_thread);
        on_fiber = run_one(k, c, m, s, run_on_fiber);
        if (are_equal(&on_thread, &on_fiber))
            return true;
    }
    printf("%s/%s/%s: %s differs\n", k->name, mode_names[m], situation_names[s], c->name);
    print_outcome("thread", &on_thread);
    print_outcome("fiber", &on_fiber);
    return false;
}

/* ------------------------------------------------------------------------------------------------- as a program --- */

typedef struct combination {
    const kind *kind;
    mode mode;
    situation situation;
    const call_table *const *tables; /* the last one is NULL */
    char name[NAME_MAX_BYTES];
} combination;

static const call_table *const all_calls[] = {
    &input_calls,      &stream_input_calls, &output_calls,     &stream_output_calls,
    &connection_calls, &waiting_calls,      &descriptor_calls, NULL};
static const call_table *const locking_calls[] = {&calls_without_descriptor, NULL};

static unsigned count_differences(const combination *c, const call_table *table)
{
    unsigned different = 0;
    for (size_t i = 0; i < table->count; i++) {
        const call *each = &table->calls[i];
        if ((each->sockets_only && !c->kind->is_socket) || would_hang(c->kind, each, c->mode, c->situation))
            continue;
        harness_note_line(each->name, (int)i);
        different += !compare(c->kind, each, c->mode, c->situation);
    }
    return different;
}

static void compare_all_calls(uintptr_t argument)
{
    const combination *c = (const combination *)argument;
    unsigned different = 0;
    signal(SIGPIPE, count_broken_pipe);
    for (const call_table *const *table = c->tables; *table; table++)
        different += count_differences(c, *table);
    CHECK_EQ(different, 0);
}

static void plan_combination(combination *c)
{
    snprintf(c->name, sizeof c->name, "%s/%s/%s", c->kind->name, mode_names[c->mode], situation_names[c->situation]);
    plan_case(c->name, compare_all_calls, (uintptr_t)c);
}

int main(int argc, char **argv)
{
    static combination combinations[COMBINATIONS_MAX];
    size_t count = 1;
    combinations[0] = (combination){.kind = &no_descriptor, .tables = locking_calls};
    for (size_t i = 0; i < kind_count; i++) {
        for (mode m = 0; m < MODES; m++) {
            for (situation s = 0; s < SITUATIONS; s++) {
                CHECK_LT(count, COMBINATIONS_MAX);
                if (exists(&kinds[i], m, s))
                    combinations[count++] =
                        (combination){.kind = &kinds[i], .mode = m, .situation = s, .tables = all_calls};
            }
        }
    }
    for (size_t i = 0; i < count; i++)
        plan_combination(&combinations[i]);
    return run_plan(ONE_CARRIER_OF_PLAN, argc, argv);
}
