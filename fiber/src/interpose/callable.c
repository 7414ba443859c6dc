/* callable.c: finds the variables by name. They are not linked, because few programs have them. */
#include "callable.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(void *) libstdcxx;

/* It may be loaded at any time, and then stays. */
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

void mf_callable_put(mf_callable put_down)
{
    if (!put_down.call)
        return;
    variables own = find_variables(atomic_load(&libstdcxx));
    *own.callable = put_down.callable;
    *own.call = put_down.call;
}
