/* libc.c: the table of shadowed names, and looking up libc's functions behind them. */
#include "libc.h"

#include <dlfcn.h>

_Atomic(void *) mf_libc_functions[MF_LIBC_COUNT];

/* The first ones in the order of mf_libc_index. */
const mf_shadow mf_shadows[] = {
#define SHADOW(name) {#name, (void *)name},
    MF_SHADOWED(SHADOW) MF_ALIASED(SHADOW)
#undef SHADOW
};

const size_t mf_shadow_count = sizeof mf_shadows / sizeof *mf_shadows;

/* A newer name than this libc's is not found, and then the loader keeps a message for this thread, which its next
 * question but one frees: a fork would leave it behind. */
static void forget_message(void)
{
    dlerror();
    dlerror();
}

static void *find(mf_libc_index index)
{
    void *function = dlsym(RTLD_NEXT, mf_shadows[index].name);
    if (!function)
        forget_message();
    atomic_store_explicit(&mf_libc_functions[index], function, memory_order_relaxed);
    return function;
}

void *mf_libc_find(mf_libc_index index)
{
    void *function = find(index);
    if (!function)
        abort(); /* nobody can have linked against what this libc does not know */
    return function;
}

void mf_libc_find_all(void)
{
    for (int i = 0; i < MF_LIBC_COUNT; i++)
        find((mf_libc_index)i);
}
