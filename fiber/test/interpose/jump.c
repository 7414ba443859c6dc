/* jump.c: the mask of signals in handlers, and after jumps. */
#include "interpose_test.h"

#include <setjmp.h>
#include <signal.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime interposes these calls before we do")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

static char order[64];

static void note(const char *what)
{
    strcat(order, what);
}

static bool is_blocked(int signal_number)
{
    sigset_t now;
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &now), 0);
    return sigismember(&now, signal_number);
}

static void change(int how, int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    CHECK_EQ(sigprocmask(how, &one, NULL), 0);
}

static void handle_by(int signal_number, void (*handler)(int), int blocked, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    if (blocked)
        sigaddset(&action.sa_mask, blocked);
    MUST(sigaction(signal_number, &action, NULL));
}

static void note_other(int signal_number)
{
    CHECK(is_blocked(signal_number));
    note("2");
}

static void raise_others(int signal_number)
{
    note("(");
    CHECK(is_blocked(signal_number));
    CHECK_EQ(raise(SIGUSR2), 0);
    note(")");
}

static void raise_itself_again(int signal_number)
{
    note("(");
    if (strlen(order) < 6)
        CHECK_EQ(raise(signal_number), 0);
    note(")");
}

static void block_other(int signal_number)
{
    CHECK(is_blocked(signal_number));
    change(SIG_BLOCK, SIGUSR2);
}

static void *raise_and_tell_order(void *argument)
{
    order[0] = 0;
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
    CHECK(strcmp(order, argument) == 0);
    return NULL;
}

static void what_a_handler_blocks_waits_for_its_end(void)
{
    SKIP_UNDER_TSAN();
    handle_by(SIGUSR2, note_other, 0, 0);
    handle_by(SIGUSR1, raise_others, SIGUSR2, 0);
    on_fiber(raise_and_tell_order, "()2");
    handle_by(SIGUSR1, raise_others, 0, 0);
    on_fiber(raise_and_tell_order, "(2)");
    handle_by(SIGUSR1, raise_itself_again, 0, 0);
    on_fiber(raise_and_tell_order, "()()()()");
    handle_by(SIGUSR1, raise_itself_again, 0, SA_NODEFER);
    on_fiber(raise_and_tell_order, "(((((())))))");
}

static void what_a_handler_changes_ends_with_it(void)
{
    SKIP_UNDER_TSAN();
    handle_by(SIGUSR1, block_other, 0, 0);
    on_fiber(raise_and_tell_order, "");
}

static sigjmp_buf jump_target;

static void jump(int signal_number)
{
    (void)signal_number;
    siglongjmp(jump_target, 1);
}

static void *jump_out_of_handlers(void *argument)
{
    for (volatile int jumps = 0; jumps < 3;) {
        if (sigsetjmp(jump_target, 1) == 0)
            CHECK_EQ(raise(SIGUSR1), 0);
        else
            jumps = jumps + 1;
        CHECK(!is_blocked(SIGUSR1));
    }
    if (sigsetjmp(jump_target, 0) == 0)
        CHECK_EQ(raise(SIGUSR1), 0);
    CHECK(is_blocked(SIGUSR1)); /* nobody has restored it */
    return argument;
}

static void a_jump_out_of_a_handler(void)
{
    SKIP_UNDER_TSAN();
    handle_by(SIGUSR1, jump, 0, 0);
    on_fiber(jump_out_of_handlers, NULL);
}

static void *change_and_jump_back(void *argument)
{
    const int *how = argument;
    change(how[0], SIGUSR1);
    if (sigsetjmp(jump_target, 1) == 0) {
        change(how[1], SIGUSR1);
        mr_fiber_yield();
        siglongjmp(jump_target, 1);
    }
    CHECK_EQ(is_blocked(SIGUSR1), how[0] == SIG_BLOCK);
    mr_fiber_yield();
    CHECK_EQ(is_blocked(SIGUSR1), how[0] == SIG_BLOCK);
    if (sigsetjmp(jump_target, 0) == 0) {
        change(how[1], SIGUSR1);
        longjmp(jump_target, 1);
    }
    CHECK_EQ(is_blocked(SIGUSR1), how[1] == SIG_BLOCK);
    return NULL;
}

static void a_jump_restores_the_mask(void)
{
    SKIP_UNDER_TSAN();
    on_fiber(change_and_jump_back, (int[]){SIG_BLOCK, SIG_UNBLOCK});
    on_fiber(change_and_jump_back, (int[]){SIG_UNBLOCK, SIG_BLOCK});
}

const fiber_case jump_cases[] = {
    CASE(what_a_handler_blocks_waits_for_its_end),
    CASE(what_a_handler_changes_ends_with_it),
    CASE(a_jump_out_of_a_handler),
    CASE(a_jump_restores_the_mask),
    {0},
};
