/*
 * stack.c: allocates stacks by mmap, in sizes that are powers of two, with a pool for each size.
 *
 * The guard is a range without access. Linux 6.13 can mark it inside a mapping (MADV_GUARD_INSTALL). On older kernels
 * mprotect splits every mapping in two, and vm.max_map_count (65530) allows about 32,000 stacks.
 */
#include "stack.h"
#include "lock.h"
#include "check.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    SIZE_MIN_LOG2 = 14,
    SIZE_MAX_LOG2 = 40,
    GUARD_BYTES = 1024 * 1024, /* address space only; so large that a large frame does not reach beyond it */
    HOT_STACKS = 256,          /* stacks that are kept with all their memory; others keep only their upper end */
    HOT_BYTES = 32 * 1024,
    GIVEN_PER_TRIMMED = 16, /* one in this many is trimmed even if no deep use was seen */
};

typedef struct kept_stack {
    struct kept_stack *next;
} kept_stack;

/* The free list of a size. Its links lie in the stacks themselves, at the upper ends, which every use has touched. */
typedef struct pool {
    mf_lock lock;
    unsigned count; /* stacks that are kept, or about to be */
    unsigned given;
    kept_stack *first;
} pool;

static pool pools[SIZE_MAX_LOG2 + 1];
static unsigned kept_limit;

void mf_stack_set_kept(unsigned count)
{
    kept_limit = count;
}

static unsigned size_class(size_t size_bytes)
{
    unsigned class = SIZE_MIN_LOG2;
    while (class <= SIZE_MAX_LOG2 && ((size_t)1 << class) < size_bytes)
        class ++;
    return class;
}

bool mf_stack_is_possible(size_t size_bytes)
{
    return size_class(size_bytes) <= SIZE_MAX_LOG2;
}

static kept_stack *link_of(const mf_stack *stack)
{
    return (kept_stack *)(stack->bottom + stack->size_bytes) - 1;
}

static bool reuse_kept(mf_stack *stack, unsigned class)
{
    pool *own = &pools[class];
    mf_lock_acquire(&own->lock);
    kept_stack *link = own->first;
    if (link) {
        MR_CHECK(own->count > 0);
        own->first = link->next;
        own->count--;
    }
    mf_lock_release(&own->lock);
    if (!link)
        return false;
    stack->bottom = (char *)(link + 1) - stack->size_bytes;
    return true;
}

/* True if madvise reports unknown advice. QEMU's user-mode emulation returns success for every advice, also for -1,
 * which is none. */
static bool advice_is_heeded(char *memory)
{
    static atomic_int known; /* 0: not tested yet */
    if (known == 0)
        known = madvise(memory, GUARD_BYTES, -1) != 0 ? 1 : -1;
    return known == 1;
}

static bool guard(char *memory)
{
    return (advice_is_heeded(memory) && madvise(memory, GUARD_BYTES, MADV_GUARD_INSTALL) == 0) ||
           mprotect(memory, GUARD_BYTES, PROT_NONE) == 0;
}

static int map(mf_stack *stack)
{
    size_t whole = GUARD_BYTES + stack->size_bytes;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    /* One huge page would commit the memory of eight stacks at the first touch. */
    madvise(memory, whole, MADV_NOHUGEPAGE);
    if (!guard(memory)) {
        munmap(memory, whole);
        return -ENOMEM;
    }
    stack->bottom = memory + GUARD_BYTES;
    return 0;
}

static void unmap(const mf_stack *stack)
{
    munmap(stack->bottom - GUARD_BYTES, GUARD_BYTES + stack->size_bytes);
}

int mf_stack_alloc(mf_stack *stack, size_t size_bytes)
{
    unsigned class = size_class(size_bytes);
    if (!mf_stack_is_possible(size_bytes))
        return -EINVAL;
    stack->size_bytes = (size_t)1 << class;
    int error = reuse_kept(stack, class) ? 0 : map(stack);
    if (!error)
        stack->deepest = stack->bottom + stack->size_bytes;
    return error;
}

/* True if the memory of a kept stack should be freed except its upper end. How deep the stack was used between two
 * switches is unknown. Asking the system takes as long as freeing the memory. */
static bool should_trim(pool *own, const mf_stack *stack)
{
    if (own->count < HOT_STACKS || stack->size_bytes <= HOT_BYTES)
        return false;
    return stack->deepest < stack->bottom + stack->size_bytes - HOT_BYTES || ++own->given % GIVEN_PER_TRIMMED == 0;
}

void mf_stack_free(const mf_stack *stack)
{
    pool *own = &pools[size_class(stack->size_bytes)];
    kept_stack *link = link_of(stack);
    mf_lock_acquire(&own->lock);
    bool keep = own->count < kept_limit, trim = keep && should_trim(own, stack);
    own->count += keep;
    mf_lock_release(&own->lock);
    if (!keep) {
        unmap(stack);
        return;
    }
    if (trim)
        madvise(stack->bottom, stack->size_bytes - HOT_BYTES, MADV_DONTNEED);
    mf_lock_acquire(&own->lock);
    link->next = own->first;
    own->first = link;
    mf_lock_release(&own->lock);
}

void mf_stack_drop_kept(void)
{
    mf_stack stack;
    for (unsigned class = SIZE_MIN_LOG2; class <= SIZE_MAX_LOG2; class ++) {
        stack.size_bytes = (size_t)1 << class;
        while (reuse_kept(&stack, class))
            unmap(&stack);
    }
}

void mf_stack_forget_kept(void)
{
    memset(pools, 0, sizeof pools);
}

bool mf_stack_guards(const mf_stack *stack, const void *address)
{
    uintptr_t at = (uintptr_t)address, bottom = (uintptr_t)stack->bottom;
    return at < bottom && at >= bottom - GUARD_BYTES;
}
