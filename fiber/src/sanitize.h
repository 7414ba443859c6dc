/*
 * sanitize.h: tells AddressSanitizer and ThreadSanitizer about switches of stacks, which they cannot see. Without
 * sanitizers these functions do nothing.
 */
#ifndef MILLRACE_FIBER_SANITIZE_H
#define MILLRACE_FIBER_SANITIZE_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>
#endif

/* The sanitizers' data about one context. */
typedef struct mf_sanitizer {
    const void *bottom;
    size_t size;
    void *fake_stack; /* AddressSanitizer's, while the context does not run */
    void *tsan_fiber;
} mf_sanitizer;

/* Makes ThreadSanitizer open the program's files now, before there are fibers. Otherwise it opens them at its first
 * report, holding its locks. On a fiber a helper thread would open them, and wait for those locks. */
static inline void mf_sanitizer_prepare(void)
{
#if defined(__SANITIZE_THREAD__)
    char name[64];
    __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name, sizeof name);
#endif
}

/* Registers a new context with this stack. */
static inline void mf_sanitizer_create(mf_sanitizer *context, void *bottom, size_t size)
{
    *context = (mf_sanitizer){.bottom = bottom, .size = size};
#if defined(__SANITIZE_ADDRESS__)
    __lsan_register_root_region(bottom, size);
#elif defined(__SANITIZE_THREAD__)
    context->tsan_fiber = __tsan_create_fiber(0);
#endif
}

/* Frees the data of a context that will never run again. */
static inline void mf_sanitizer_destroy(mf_sanitizer *context)
{
    (void)context;
#if defined(__SANITIZE_ADDRESS__)
    __lsan_unregister_root_region(context->bottom, context->size);
    __asan_unpoison_memory_region(context->bottom, context->size); /* the frames of functions that never returned */
#elif defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(context->tsan_fiber);
#endif
}

/* Registers the context of the calling OS thread. mf_sanitizer_arrive fills in its stack at the first switch to a
   fiber. */
static inline void mf_sanitizer_adopt_thread(mf_sanitizer *context)
{
    *context = (mf_sanitizer){0};
#if defined(__SANITIZE_THREAD__)
    context->tsan_fiber = __tsan_get_current_fiber();
#endif
}

/* Call this directly before the switch. With `ends`, the context `from` never runs again. */
static inline void mf_sanitizer_leave(mf_sanitizer *from, mf_sanitizer *to, int ends)
{
    (void)from, (void)to, (void)ends;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, to->bottom, to->size);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
}

/* Call this directly after the switch, on the stack of `self`. `from` is the context that ran before the switch. */
static inline void mf_sanitizer_arrive(mf_sanitizer *self, mf_sanitizer *from)
{
    (void)self, (void)from;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->fake_stack, &from->bottom, &from->size);
#endif
}

#endif
