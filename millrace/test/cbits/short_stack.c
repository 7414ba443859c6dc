/* short_stack.c: see short_stack.h. */
#include "short_stack.h"

#include "ghc/layout.h"
#include "ghc/waiters.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USED_WORDS = 2 };

/* What waiters.c follows, as the run-time system lays it out. */
typedef struct waiter {
    StgTSO thread;
    StgMVarTSOQueue queue;
    StgMVar variable;
    struct {
        StgHeader header;
        StgClosure *variable;
    } box;
} waiter;

/* A stack whose last word is the last one before memory that may not be read. */
static StgStack *stack_at_end_of_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_NONE) < 0)
        return NULL;
    StgStack *stack = (StgStack *)memory;
    stack->stack_size = (StgWord32)(page - offsetof(StgStack, stack)) / sizeof(StgWord);
    stack->sp = (StgPtr)(memory + page) - USED_WORDS;
    return stack;
}

static void fetch(StgStack *stack)
{
    static waiter w;
    w.thread.stackobj = stack;
    w.queue.header.info = &stg_MVAR_TSO_QUEUE_info;
    w.queue.tso = &w.thread;
    w.variable.head = &w.queue;
    w.box.variable = (StgClosure *)&w.variable;
    StgClosure *const waiters[] = {(StgClosure *)((StgWord)&w.box + 1)};
    mrh_prefetch_waiters(waiters, 1);
}

int fetch_short_stack(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        StgStack *stack = stack_at_end_of_memory();
        if (stack)
            fetch(stack);
        _exit(stack ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}
