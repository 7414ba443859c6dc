/*
 * watchdog.c: a thread that reports when a carrier has been running the same fiber for too long, and at which address.
 *
 * If the carrier is in a system call, /proc has its address, and the carrier is not disturbed. If it computes, a signal
 * samples it. That signal interrupts no call.
 */
#include "../futex.h"
#include "report.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define NS_PER_MS     UINT64_C(1000000)
#define SAMPLE_SIGNAL (SIGRTMAX - 3)

enum { STACK_WORDS = 256 };

static struct {
    pthread_t thread;
    mf_carrier *carriers;
    unsigned count;
    bool running;
    atomic_uint stopping;
} watchdog;

/* ------------------------------------------------------------------------------------------ finding the address --- */

static void sample(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)info;
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    uintptr_t address = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    uintptr_t address = (uintptr_t)interrupted->uc_mcontext.pc;
#endif
    if (mf_this_carrier)
        atomic_store(&mf_this_carrier->sampled_address, address);
}

void mf_watchdog_enter_carrier(mf_carrier *carrier)
{
    sigset_t own;
    carrier->thread_id = (int)syscall(SYS_gettid);
    if (!mf_watchdog_limit_ms)
        return;
    sigemptyset(&own);
    sigaddset(&own, SAMPLE_SIGNAL);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
}

void mf_watchdog_wait_for_reader(mf_carrier *carrier)
{
    if (!mf_watchdog_limit_ms)
        return;
    mf_lock_acquire(&carrier->running_lock);
    mf_lock_release(&carrier->running_lock);
}

/* A system call of the carrier, and its call site. */
typedef struct system_call {
    uintptr_t stack_pointer;
    const void *address; /* in libc */
    const void *caller;  /* in another object; NULL if unknown */
} system_call;

/* The carrier's instruction and stack pointers, if it is in a system call (proc(5), /proc/pid/syscall). */
static bool find_system_call(const mf_carrier *carrier, system_call *call)
{
    char path[64], line[256];
    uintptr_t address = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", carrier->thread_id);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool found = fgets(line, sizeof line, file) &&
                 sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %lx %lx", &call->stack_pointer, &address) == 2;
    fclose(file);
    call->address = (const void *)address;
    return found;
}

static uintptr_t address_by_signal(mf_carrier *carrier)
{
    atomic_store(&carrier->sampled_address, 0);
    syscall(SYS_tgkill, getpid(), carrier->thread_id, SAMPLE_SIGNAL);
    for (int i = 0; i < 20 && !atomic_load(&carrier->sampled_address); i++)
        usleep(500);
    return atomic_load(&carrier->sampled_address);
}

/* True if an address is inside a function that has a name, so that it may be a return address. Stacks also have data
 * and addresses of functions, which are not return addresses. */
static bool is_inside_named_function(const void *address)
{
    Dl_info found;
    void *entry = NULL;
    if (!dladdr1(address, &found, &entry, RTLD_DL_SYMENT) || !found.dli_sname || !entry)
        return false;
    return ELF64_ST_TYPE(((const ElfW(Sym) *)entry)->st_info) == STT_FUNC && found.dli_saddr != address;
}

/*
 * Scans the stack above the call for return addresses. The first one outside libc is the caller. libc makes some system
 * calls in a function that is not exported (since glibc 2.41 those that are cancellation points). Then the address is
 * the first return address in a function with a name. This reads memory that the fiber may be writing. In the worst
 * case a name is wrong.
 */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void scan_stack(const mr_fiber *fiber,
                                                                                system_call *call)
{
    Dl_info callee, candidate;
    uintptr_t bottom = (uintptr_t)fiber->stack.bottom, top = bottom + fiber->stack.size_bytes;
    if (call->stack_pointer < bottom || call->stack_pointer >= top || !dladdr(call->address, &callee))
        return;
    const uintptr_t *word = (const uintptr_t *)(call->stack_pointer & ~(uintptr_t)7);
    bool has_name = is_inside_named_function(call->address);
    for (int i = 0; i < STACK_WORDS && (uintptr_t)&word[i] < top && !call->caller; i++) {
        const void *address = (const void *)word[i];
        if (!dladdr(address, &candidate))
            continue;
        if (candidate.dli_fbase != callee.dli_fbase) {
            call->caller = address;
        } else if (!has_name && is_inside_named_function(address)) {
            call->address = address;
            has_name = true;
        }
    }
}

/* The address at which a carrier runs a fiber. */
typedef struct finding {
    char fiber[MR_FIBER_NAME_BYTES];
    char address[MF_ADDRESS_TEXT_BYTES];
    char caller[MF_ADDRESS_TEXT_BYTES];
} finding;

static void find_address(mf_carrier *carrier, const mr_fiber *fiber, finding *found)
{
    system_call call = {0};
    if (find_system_call(carrier, &call))
        scan_stack(fiber, &call);
    else
        call.address = (const void *)address_by_signal(carrier);
    memcpy(found->fiber, fiber->name, sizeof found->fiber);
    mf_report_describe(found->address, call.address);
    if (call.caller)
        mf_report_describe(found->caller, call.caller);
}

static void report_carrier(mf_carrier *carrier, uint64_t turn, uint64_t held_ms)
{
    finding found = {0};
    mf_lock_acquire(&carrier->running_lock);
    const mr_fiber *fiber = atomic_load(&carrier->running);
    bool is_there = fiber && atomic_load(&carrier->turns) == turn;
    if (is_there)
        find_address(carrier, fiber, &found);
    mf_lock_release(&carrier->running_lock);
    if (is_there)
        mf_report("carrier %u has been held for %llu ms by fiber \"%s\" in %s%s%s", carrier->index,
                  (unsigned long long)held_ms, found.fiber, found.address, *found.caller ? ", called from " : "",
                  found.caller);
}

/* --------------------------------------------------------------------------------------------------- the thread --- */

/* The watchdog's last observation of a carrier. */
typedef struct observation {
    uint64_t turn;
    uint64_t since_ns;
    bool reported;
} observation;

static void observe(mf_carrier *carrier, observation *last, uint64_t now_ns)
{
    uint64_t turn = atomic_load(&carrier->turns);
    bool runs_a_fiber = turn % 2;
    if (turn != last->turn || !runs_a_fiber) {
        *last = (observation){.turn = turn, .since_ns = now_ns};
    } else if (!last->reported && now_ns - last->since_ns >= mf_watchdog_limit_ms * NS_PER_MS) {
        last->reported = true;
        report_carrier(carrier, turn, (now_ns - last->since_ns) / NS_PER_MS);
    }
}

static void *watch(void *argument)
{
    static observation observations[MR_CARRIERS_MAX];
    memset(observations, 0, sizeof observations);
    while (!atomic_load(&watchdog.stopping)) {
        uint64_t now_ns = mr_clock_now_ns();
        for (unsigned i = 0; i < watchdog.count; i++)
            observe(&watchdog.carriers[i], &observations[i], now_ns);
        mf_futex_wait(&watchdog.stopping, 0, now_ns + mf_watchdog_limit_ms * NS_PER_MS / 2 + NS_PER_MS);
    }
    return argument;
}

void mf_watchdog_start(mf_carrier *carriers, unsigned count)
{
    if (!mf_watchdog_limit_ms)
        return;
    struct sigaction action = {.sa_sigaction = sample, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(SAMPLE_SIGNAL, &action, NULL);
    watchdog.carriers = carriers;
    watchdog.count = count;
    atomic_store(&watchdog.stopping, 0);
    sigset_t every, before; /* this thread must not receive the program's signals */
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    watchdog.running = pthread_create(&watchdog.thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mf_watchdog_stop(void)
{
    if (!watchdog.running)
        return;
    atomic_store(&watchdog.stopping, 1);
    mf_futex_wake(&watchdog.stopping, 1);
    pthread_join(watchdog.thread, NULL);
    watchdog.running = false;
}
