/* coverage.c - part of Haskell programs that scripts/coverage measures: writes what they have reached so far, again
 * and again. GHC writes that when a program exits, so programs that a signal ends would seem to have reached nothing.
 */
#define _GNU_SOURCE
#include <Rts.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The share of a processor that writing may take. */
#define SHARE            5
#define PAUSE_MICROS_MIN 10000
/* A program that ends before writes itself what it has reached. */
#define FIRST_PAUSE_MICROS 50000

/* $HPCTIXFILE.PID.tix, and the same file while it is being written. */
static char file[4096], unfinished[4096 + 16];

/* The modules of the program, as the run-time system lists them until the program exits. */
typedef struct program_module {
    const char *name;
    uint32_t hash, count;
    const StgWord64 *reached;
} program_module;
static program_module *modules;
static size_t module_count;
/* Held while the list is read: the run-time system frees it when the program exits. */
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static bool has_list = true;
static pid_t process;

static void find_modules(void)
{
    for (const HpcModuleInfo *module = hs_hpc_rootModule(); module; module = module->next)
        module_count += !module->from_file;
    modules = calloc(module_count, sizeof *modules);
    if (!modules)
        module_count = 0;
    size_t at = 0;
    for (const HpcModuleInfo *module = hs_hpc_rootModule(); module && at < module_count; module = module->next)
        if (!module->from_file)
            modules[at++] = (program_module){module->modName, module->hashNo, module->tickCount, module->tixArr};
}

static void write_now(void)
{
    FILE *to = fopen(unfinished, "w");
    if (!to)
        return;
    fputs("Tix [", to);
    for (size_t i = 0; i < module_count; i++) {
        fprintf(to, "%s TixModule \"%s\" %" PRIu32 " %" PRIu32 " [", i == 0 ? "" : ",", modules[i].name,
                modules[i].hash, modules[i].count);
        for (uint32_t box = 0; box < modules[i].count; box++)
            fprintf(to, box == 0 ? "%" PRIu64 : ",%" PRIu64, (uint64_t)modules[i].reached[box]);
        fputs("]", to);
    }
    fputs("]\n", to);
    if (fclose(to) == 0)
        rename(unfinished, file);
}

static void *keep_writing(void *unused)
{
    (void)unused;
    usleep(FIRST_PAUSE_MICROS);
    for (;;) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        pthread_mutex_lock(&list);
        if (!has_list)
            break;
        if (!modules)
            find_modules();
        write_now();
        pthread_mutex_unlock(&list);
        clock_gettime(CLOCK_MONOTONIC, &end);
        long taken = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
        usleep((useconds_t)(SHARE * taken > PAUSE_MICROS_MIN ? SHARE * taken : PAUSE_MICROS_MIN));
    }
    pthread_mutex_unlock(&list);
    return NULL;
}

/* The linker puts the first in the place of the run-time system's function, which is the second. */
void __wrap_exitHpc(void);
void __real_exitHpc(void);

void __wrap_exitHpc(void)
{
    /* A child has no thread that writes, and perhaps a copy of a mutex that is held. */
    bool is_child = getpid() != process;
    if (!is_child)
        pthread_mutex_lock(&list);
    has_list = false;
    if (!is_child)
        pthread_mutex_unlock(&list);
    __real_exitHpc();
}

__attribute__((constructor)) static void start_writing(void)
{
    const char *name = getenv("HPCTIXFILE");
    if (!name)
        return;
    process = getpid();
    snprintf(file, sizeof file, "%s.%d.tix", name, (int)process);
    snprintf(unfinished, sizeof unfinished, "%s.part", file);
    /* The program's signals are for its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, keep_writing, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
