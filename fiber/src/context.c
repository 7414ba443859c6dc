/* context.c: builds the first frame of a context, as mf_switch in switch.S would leave it. */
#include "context.h"

#include <stdint.h>
#include <string.h>

void mf_entry(void); /* switch.S */

#if defined(__x86_64__)

/* The registers that mf_switch pushed, lowest address first. */
typedef struct frame {
    uint32_t mxcsr;
    uint32_t x87_control;
    uint64_t r15, r14, r13, r12, rbx, rbp;
    void (*return_address)(void);
} frame;

enum { MXCSR_AT_START = 0x1f80, X87_CONTROL_AT_START = 0x037f }; /* System V AMD64 ABI, figure 3.4 */

static void fill(frame *f, void (*run)(void *), void *argument)
{
    f->mxcsr = MXCSR_AT_START;
    f->x87_control = X87_CONTROL_AT_START;
    f->r12 = (uint64_t)(uintptr_t)argument;
    f->r13 = (uint64_t)(uintptr_t)run;
    f->return_address = mf_entry;
}

#elif defined(__aarch64__)

/* The registers that mf_switch stored, lowest address first. */
typedef struct frame {
    uint64_t x19, x20, x21_to_x28[8], x29;
    void (*x30)(void);
    uint64_t d8_to_d15[8];
    uint64_t fpcr;
    uint64_t padding;
} frame;

static void fill(frame *f, void (*run)(void *), void *argument)
{
    f->x19 = (uint64_t)(uintptr_t)argument;
    f->x20 = (uint64_t)(uintptr_t)run;
    f->x30 = mf_entry;
}

#endif

void *mf_context_make(void *top, void (*run)(void *), void *argument)
{
    /* Both processors require a stack pointer that is a multiple of 16 when mf_entry begins. */
    uintptr_t end = (uintptr_t)top & ~(uintptr_t)15;
    frame *first = (frame *)(end - sizeof(frame));
    memset(first, 0, sizeof *first);
    fill(first, run, argument);
    return first;
}
