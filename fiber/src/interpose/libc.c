/* libc.c: the table of interposed names, and the look-up of libc's functions with these names. */
#include "libc.h"

#include <dlfcn.h>

_Atomic(void *) mf_libc_functions[MF_LIBC_COUNT];

/* The first entries are in the order of mf_libc_index. */
const mf_interposed mf_interposed_functions[] = {
#define ENTRY(name) {#name, (void *)name},
    MF_INTERPOSED(ENTRY) MF_ALIASED(ENTRY)
#undef ENTRY
};

const size_t mf_interposed_count = sizeof mf_interposed_functions / sizeof *mf_interposed_functions;

__attribute__((used)) static const char *const linked_files[] = {
#define ENTRY(file) &mf_linked_##file,
    MF_INTERPOSING_FILES(ENTRY)
#undef ENTRY
};

/* If this libc does not have a newer name, the loader keeps an error message for this thread. It frees the message
 * only two look-ups later, so a fork would leak it. */
static void forget_message(void)
{
    dlerror();
    dlerror();
}

static void *find(mf_libc_index index)
{
    void *function = dlsym(RTLD_NEXT, mf_interposed_functions[index].name);
    if (!function)
        forget_message();
    atomic_store_explicit(&mf_libc_functions[index], function, memory_order_relaxed);
    return function;
}

void *mf_libc_find(mf_libc_index index)
{
    void *function = find(index);
    if (!function)
        abort(); /* no program can be linked against a name that this libc does not have */
    return function;
}

void mf_libc_find_all(void)
{
    for (int i = 0; i < MF_LIBC_COUNT; i++)
        find((mf_libc_index)i);
}
