/* machine.c: creates and destroys a machine; its clock and events, random numbers and trace. */
#include "machine.h"

#include "descriptor_table.h"
#include "disk.h"
#include "socket.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER_BYTES_DEFAULT = 208 * 1024 };

#define DELAY_MAX_DEFAULT_NS UINT64_C(10000000)
#define STALL_DEFAULT_NS     (30 * MR_NS_PER_S)
#define AWAIT_NS             (MR_NS_PER_S / 1000) /* of real time, between two checks */
#define MILLION              1000000

void mr_machine_lock(mr_machine *machine)
{
    pthread_mutex_lock(&machine->lock);
}

void mr_machine_unlock(mr_machine *machine)
{
    pthread_mutex_unlock(&machine->lock);
}

/* -------------------------------------------------------------------------------------------------- lifetime --- */

static void set_defaults(mr_machine_plan *plan)
{
    if (!plan->delay_max_ns)
        plan->delay_max_ns = DELAY_MAX_DEFAULT_NS;
    if (!plan->stall_ns)
        plan->stall_ns = STALL_DEFAULT_NS;
    if (!plan->buffer_bytes)
        plan->buffer_bytes = BUFFER_BYTES_DEFAULT;
}

static void init_locks(mr_machine *machine)
{
    pthread_mutexattr_t recursive;
    pthread_condattr_t monotonic;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&machine->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&machine->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int mr_machine_create(const mr_machine_plan *plan, mr_machine **result)
{
    mr_machine *machine = calloc(1, sizeof *machine);
    mr_planned_fault *planned = calloc(plan->planned_count + 1, sizeof *planned);
    if (!machine || !planned) {
        free(machine);
        free(planned);
        return -ENOMEM;
    }
    machine->plan = *plan;
    set_defaults(&machine->plan);
    if (plan->planned_count)
        memcpy(planned, plan->planned, plan->planned_count * sizeof *planned);
    machine->planned = planned;
    machine->plan.planned = planned;
    machine->random = plan->seed;
    machine->now_ns = MR_MACHINE_START_NS;
    machine->limit = INT32_MAX;
    init_locks(machine);
    *result = machine;
    return 0;
}

void mr_machine_destroy(mr_machine *machine)
{
    mr_machine_free_descriptors(machine);
    mr_disk_free(machine);
    for (size_t i = 0; i < machine->event_count; i++) {
        free(machine->events[i].datagram);
        if (machine->events[i].socket && --machine->events[i].socket->events == 0)
            free(machine->events[i].socket);
    }
    pthread_mutex_destroy(&machine->lock);
    pthread_cond_destroy(&machine->changed);
    free(machine->events);
    free(machine->planned);
    free(machine->trace);
    free(machine);
}

void mr_machine_inspect(mr_machine *machine, mr_machine_state *state)
{
    mr_machine_lock(machine);
    *state = machine->state;
    mr_machine_unlock(machine);
}

/* ----------------------------------------------------------------------------------------------------- trace --- */

static bool reserve_line(mr_machine *machine, size_t length)
{
    size_t wanted = machine->trace_length + length + 1;
    if (wanted <= machine->trace_capacity)
        return true;
    size_t capacity = machine->trace_capacity ? machine->trace_capacity * 2 : 4096;
    while (capacity < wanted)
        capacity *= 2;
    char *trace = realloc(machine->trace, capacity);
    if (!trace)
        return false;
    machine->trace = trace;
    machine->trace_capacity = capacity;
    return true;
}

void mr_machine_note(mr_machine *machine, const char *format, ...)
{
    char line[512];
    uint64_t now_ns = mr_machine_now_ns(machine);
    va_list arguments;
    int length = snprintf(line, sizeof line, "%llu.%09llu ", (unsigned long long)(now_ns / MR_NS_PER_S),
                          (unsigned long long)(now_ns % MR_NS_PER_S));
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length, format, arguments);
    va_end(arguments);
    if ((size_t)length >= sizeof line - 1)
        length = sizeof line - 2;
    line[length++] = '\n';
    mr_machine_lock(machine);
    if (reserve_line(machine, (size_t)length)) {
        memcpy(machine->trace + machine->trace_length, line, (size_t)length);
        machine->trace_length += (size_t)length;
    }
    mr_machine_unlock(machine);
}

const char *mr_machine_trace(mr_machine *machine, size_t *length)
{
    *length = machine->trace_length;
    return machine->trace;
}

/* -------------------------------------------------------------------------------------------- random numbers --- */

uint64_t mr_machine_draw(mr_machine *machine, uint64_t bound)
{
    /* SplitMix64 (Steele, Lea, Flood 2014), which works with any seed. */
    uint64_t z = machine->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % bound;
}

uint64_t mr_machine_random(mr_machine *machine, uint64_t bound)
{
    mr_machine_lock(machine);
    uint64_t drawn = bound ? mr_machine_draw(machine, bound) : 0;
    mr_machine_unlock(machine);
    return drawn;
}

uint64_t mr_machine_delay_ns(mr_machine *machine)
{
    return 1 + mr_machine_draw(machine, machine->plan.delay_max_ns);
}

const char *mr_fault_name(mr_fault fault)
{
    static const char *const names[] = {[MR_FAULT_NONE] = "none",
#define MR_FAULT_TEXT(name, text) [MR_FAULT_##name] = text,
                                        MR_FAULTS(MR_FAULT_TEXT)
#undef MR_FAULT_TEXT
    };
    return (unsigned)fault < MR_FAULT_COUNT ? names[fault] : "unknown";
}

static mr_fault planned_fault(mr_machine *machine)
{
    while (machine->next_planned < machine->plan.planned_count) {
        const mr_planned_fault *next = &machine->planned[machine->next_planned];
        if (next->operation > machine->state.operations)
            break;
        machine->next_planned++;
        if (next->operation == machine->state.operations)
            return next->fault;
    }
    return MR_FAULT_NONE;
}

static mr_fault random_fault(mr_machine *machine, unsigned applicable)
{
    uint64_t total = 0;
    for (int i = 1; i < MR_FAULT_COUNT; i++)
        if (applicable >> i & 1)
            total += machine->plan.per_million[i];
    if (!total)
        return MR_FAULT_NONE;
    uint64_t drawn = mr_machine_draw(machine, total > MILLION ? total : MILLION);
    for (int i = 1; i < MR_FAULT_COUNT; i++) {
        if (!(applicable >> i & 1))
            continue;
        if (drawn < machine->plan.per_million[i])
            return (mr_fault)i;
        drawn -= machine->plan.per_million[i];
    }
    return MR_FAULT_NONE;
}

mr_fault mr_machine_next_fault(mr_machine *machine, unsigned applicable)
{
    machine->state.operations++;
    mr_fault random = random_fault(machine, applicable);
    mr_fault planned = planned_fault(machine);
    mr_fault fault = planned != MR_FAULT_NONE && applicable >> planned & 1 ? planned : random;
    if (fault != MR_FAULT_NONE) {
        machine->state.faults++;
        MR_TRACE(machine, "fault %s operation %llu", mr_fault_name(fault),
                 (unsigned long long)machine->state.operations);
    }
    return fault;
}

/* ----------------------------------------------------------------------------------------------------- events --- */

static bool is_before(const mr_event *a, const mr_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->serial < b->serial;
}

static void swap(mr_event *a, mr_event *b)
{
    mr_event held = *a;
    *a = *b;
    *b = held;
}

/* Aborts without memory: a scheduled event must not be lost, and no caller could handle the error. */
static void grow_events(mr_machine *machine)
{
    if (machine->event_count < machine->event_capacity)
        return;
    size_t capacity = machine->event_capacity ? machine->event_capacity * 2 : 64;
    mr_event *grown = realloc(machine->events, capacity * sizeof *grown);
    if (!grown) {
        fputs("millrace: out of memory for the events of a simulated machine\n", stderr);
        abort();
    }
    machine->events = grown;
    machine->event_capacity = capacity;
}

void mr_machine_schedule(mr_machine *machine, uint64_t time_ns, mr_event what)
{
    grow_events(machine);
    mr_event *heap = machine->events;
    size_t i = machine->event_count++;
    what.time_ns = time_ns;
    what.serial = machine->next_serial++;
    heap[i] = what;
    if (what.socket)
        what.socket->events++;
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
    if (machine->keeps_real_time)
        pthread_cond_broadcast(&machine->changed);
}

static mr_event take_first(mr_machine *machine)
{
    mr_event *heap = machine->events, first = heap[0];
    size_t count = --machine->event_count;
    heap[0] = heap[count];
    for (size_t i = 0, least;; i = least) {
        least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
            if (is_before(&heap[child], &heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&heap[i], &heap[least]);
    }
}

void mr_machine_forget_loop(mr_machine *machine, const mr_loop *loop)
{
    for (size_t i = 0; i < machine->event_count; i++)
        if (machine->events[i].loop == loop)
            machine->events[i].loop = NULL;
}

static void handle_event(mr_machine *machine, const mr_event *what)
{
    if (what->kind == MR_EVENT_COMPLETION) {
        if (what->loop)
            mr_sim_note_due(what);
        return;
    }
    mr_socket_handle_event(machine, what);
    if (--what->socket->events == 0 && what->socket->is_gone)
        free(what->socket);
}

/* Handles all events up to this time. The clock shows each one's time. */
static void handle_events(mr_machine *machine, uint64_t until_ns)
{
    while (machine->event_count && machine->events[0].time_ns <= until_ns) {
        mr_event what = take_first(machine);
        if (what.time_ns > machine->now_ns)
            machine->now_ns = what.time_ns;
        handle_event(machine, &what);
    }
}

void mr_machine_catch_up(mr_machine *machine)
{
    if (machine->event_count)
        handle_events(machine, mr_machine_now_ns(machine));
}

/* ------------------------------------------------------------------------------------------------------ time --- */

uint64_t mr_machine_now_ns(mr_machine *machine)
{
    mr_machine_lock(machine);
    if (machine->keeps_real_time)
        machine->now_ns = mr_clock_now_ns() - machine->real_offset_ns;
    uint64_t now_ns = machine->now_ns;
    mr_machine_unlock(machine);
    return now_ns;
}

void mr_machine_keep_real_time(mr_machine *machine)
{
    mr_machine_lock(machine);
    if (!machine->keeps_real_time) {
        machine->keeps_real_time = true;
        machine->real_offset_ns = mr_clock_now_ns() - machine->now_ns;
    }
    mr_machine_unlock(machine);
}

static uint64_t next_event_ns(const mr_machine *machine)
{
    return machine->event_count ? machine->events[0].time_ns : MR_NEVER_NS;
}

static int jump(mr_machine *machine, uint64_t until_ns)
{
    uint64_t next_ns = next_event_ns(machine);
    uint64_t target_ns = next_ns < until_ns ? next_ns : until_ns;
    if (target_ns == MR_NEVER_NS)
        return 0;
    handle_events(machine, target_ns);
    if (target_ns > machine->now_ns)
        machine->now_ns = target_ns;
    return 1;
}

/* Waits in real time for a change, the next event, or this time. */
static void sleep_really(mr_machine *machine, uint64_t until_ns)
{
    uint64_t next_ns = next_event_ns(machine);
    uint64_t target_ns = next_ns < until_ns ? next_ns : until_ns;
    if (target_ns == MR_NEVER_NS) {
        pthread_cond_wait(&machine->changed, &machine->lock);
    } else {
        uint64_t real_ns = target_ns + machine->real_offset_ns;
        struct timespec until = {.tv_sec = (time_t)(real_ns / MR_NS_PER_S), .tv_nsec = (long)(real_ns % MR_NS_PER_S)};
        if (real_ns < target_ns || until.tv_sec < 0)
            until = (struct timespec){.tv_sec = INT32_MAX};
        pthread_cond_timedwait(&machine->changed, &machine->lock, &until);
    }
    mr_machine_catch_up(machine);
}

int mr_machine_advance_locked(mr_machine *machine, uint64_t until_ns)
{
    if (!machine->keeps_real_time)
        return jump(machine, until_ns);
    sleep_really(machine, until_ns);
    return 1;
}

int mr_machine_advance(mr_machine *machine, uint64_t until_ns)
{
    mr_machine_lock(machine);
    int result = mr_machine_advance_locked(machine, until_ns);
    mr_machine_unlock(machine);
    return result;
}

void mr_machine_sleep(mr_machine *machine, uint64_t duration_ns)
{
    mr_machine_lock(machine);
    uint64_t until_ns = mr_machine_now_ns(machine) + duration_ns;
    while (mr_machine_now_ns(machine) < until_ns)
        mr_machine_advance_locked(machine, until_ns);
    mr_machine_unlock(machine);
}

int mr_machine_await(mr_machine *machine)
{
    mr_machine_lock(machine);
    uint64_t until_ns = machine->keeps_real_time ? mr_machine_now_ns(machine) + AWAIT_NS : MR_NEVER_NS;
    int result = mr_machine_advance_locked(machine, until_ns) ? 0 : -EDEADLK;
    mr_machine_unlock(machine);
    return result;
}
