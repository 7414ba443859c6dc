/* call_once.c: saves and restores libstdc++'s variables. It finds them by name at run time, because few programs link
 * libstdc++. */
#include "call_once.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(void *) libstdcxx;

/* The library may be loaded at any time, and then stays. */
static void *loaded_libstdcxx(void)
{
    void *library = atomic_load(&libstdcxx);
    if (library)
        return library;
    library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    atomic_store(&libstdcxx, library);
    return library;
}

typedef struct variables {
    void **callable, **call;
} variables;

/* std::__once_callable and std::__once_call. */
static variables find_variables(void *library)
{
    return (variables){dlsym(library, "_ZSt15__once_callable"), dlsym(library, "_ZSt11__once_call")};
}

mf_callable mf_callable_get(void)
{
    void *library = loaded_libstdcxx();
    if (!library)
        return (mf_callable){NULL, NULL};
    variables own = find_variables(library);
    return (mf_callable){*own.callable, *own.call};
}

void mf_callable_put(mf_callable saved)
{
    if (!saved.call)
        return;
    variables own = find_variables(atomic_load(&libstdcxx));
    *own.callable = saved.callable;
    *own.call = saved.call;
}
