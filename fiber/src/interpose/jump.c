/*
 * jump.c: jumps that restore the signal mask. libc saves the thread's mask, which is not the fiber's. The fiber's own
 * requests are saved in a part of the jump buffer that the kernel's mask does not use.
 */
#include "../carrier.h"
#include "../mask.h"
#include "../watch.h"
#include "libc.h"

#include <setjmp.h>
#include <string.h>

MF_ALWAYS_LINKED(jump);

typedef struct kept {
    uint64_t mark;
    uint64_t added, removed; /* as in mf_mask */
} kept;

/* libc uses the first words, for the mask and for a shadow stack (setjmpP.h). */
static char *request_area(struct __jmp_buf_tag *buffer)
{
    return (char *)&buffer->__saved_mask + sizeof buffer->__saved_mask - sizeof(kept);
}

/* Marks a buffer in which requests were saved. Other buffers may have any value there. */
static uint64_t mark_of(const struct __jmp_buf_tag *buffer)
{
    return (uintptr_t)buffer ^ (uintptr_t)mf_current ^ UINT64_C(0x9e3779b97f4a7c15);
}

/* switch.S: does what __sigsetjmp does, and then continues with libc's function, which this returns. */
void *mf_jump_prepare(struct __jmp_buf_tag *buffer, int saves_mask) __attribute__((visibility("hidden")));

void *mf_jump_prepare(struct __jmp_buf_tag *buffer, int saves_mask)
{
    if (saves_mask && mf_watch_is_fiber()) {
        kept own = {mark_of(buffer), mf_current->mask.added, mf_current->mask.removed};
        memcpy(request_area(buffer), &own, sizeof own);
    }
    return mf_libc_function(MF_LIBC___sigsetjmp);
}

static void restore_mask(struct __jmp_buf_tag *buffer)
{
    kept own;
    if (!buffer->__mask_was_saved || !mf_watch_is_fiber())
        return;
    memcpy(&own, request_area(buffer), sizeof own);
    if (own.mark == mark_of(buffer))
        mf_mask_restore(own.added, own.removed);
}

void siglongjmp(sigjmp_buf buffer, int value)
{
    restore_mask(buffer);
    LIBC(siglongjmp)(buffer, value);
    __builtin_unreachable();
}

void __longjmp_chk(sigjmp_buf buffer, int value)
{
    restore_mask(buffer);
    LIBC(__longjmp_chk)(buffer, value);
    __builtin_unreachable();
}

ALIAS(longjmp, siglongjmp);
ALIAS(_longjmp, siglongjmp);
