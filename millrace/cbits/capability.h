/*
 * capability.h: which loop belongs to the capability that is running this call.
 *
 * What it needs of GHC's run-time system is in ghc/. Every function here is called by an `unsafe` foreign call. While it
 * runs, nothing else runs on its capability, so its caller is the owner of that capability's loop. The capability is looked
 * up inside the call, so that the calling thread cannot migrate between look-up and use.
 */
#ifndef MILLRACE_CAPABILITY_H
#define MILLRACE_CAPABILITY_H

#include "millrace.h"

#include <stdbool.h>

/*
 * What mrh_submit and mrh_reserve return. A foreign call returns one word, so it is (value << 2) | one of these;
 * Millrace.Internal.Foreign takes it apart. The value is the token of a pending operation (with MRH_STAYS, its ticket), the
 * result of one that has ended, or nothing.
 */
enum {
    MRH_PENDING = 0,
    MRH_DONE = 1,
    MRH_NO_LOOP = 2, /* this capability has no loop yet: start the managers, then try again */
    MRH_DISABLED = 3 /* a bound thread on a capability that setNumCapabilities has switched off */
};

/* A token is less than 2^60. This bit beside it says that the thread stays on its capability while it waits. Token and bit
 * together are the operation's ticket. */
#define MRH_STAYS (UINT64_C(1) << 60)

/*
 * What a request carries as user data. With MRH_CALLBACK, the manager runs a callback instead of waking a thread. In a
 * simulation, the bits from MRH_THREAD_SHIFT on say which thread has submitted the operation.
 */
enum { MRH_CALLBACK = 1, MRH_THREAD_SHIFT = 1 };

/* The index of a simulation's loop, which no real one reaches. */
#define MRH_SIMULATED_LOOP (MR_LOOPS_MAX - 1)

/* Makes the group of all loops except a simulation's, once, with the given number of loops for mrh_create_loop. The automatic
 * choice takes a backend that has room for all of them. 0, or a negative errno. */
int mrh_create_group(int backend, unsigned loop_count);
bool mrh_has_group(void);
int mrh_backend(void);
/* Is there a group for descriptors that are made here? A simulation has one. */
bool mrh_can_adopt(void);

/* The number of forks between the first process and this one. */
int64_t mrh_epoch(void);

/* 0, or a negative errno. */
int mrh_create_loop(mr_loop **loop);
/* For the end of the run-time system: stops the helper threads and wakes every loop that sleeps. Does nothing in another
 * epoch. [any thread] */
void mrh_wake_all(void *of_epoch);
/* The capability that the caller runs on. */
void *mrh_capability(void);
/* Makes `loop` the loop of this capability, which has this number. */
void mrh_attach(mr_loop *loop, unsigned number, void *capability);

/* Makes the loop of a simulation this capability's own; NULL ends that. */
void mrh_attach_simulation(mr_loop *loop);
bool mrh_is_simulated_here(void);

/* A handle, or a negative errno. */
int64_t mrh_adopt(int descriptor);
bool mrh_is_open(mr_handle handle);
/* See mr_group_hold. 0, or a negative errno. */
int mrh_hold(mr_handle handle);
void mrh_let_go(mr_handle handle);
/* See mr_group_set_deadline. 0, or a negative errno. */
int mrh_set_deadline(mr_handle handle, int direction, uint64_t deadline_ns);
/* See mr_group_interrupt. */
void mrh_retry_waiting(mr_handle handle);

/* The value of a receive into a borrowed buffer is the buffer's address if bytes have arrived, here and in mrh_poll's
 * results. */
int64_t mrh_submit(int kind, unsigned flags, mr_handle handle, void *buffer, uint64_t length, uint64_t deadline_ns,
                   int file, uint64_t offset);

/* Reserves a token on this capability's loop: MRH_DONE with the token, or with a negative errno. */
int64_t mrh_reserve(int kind);
/* These find the loop by the token. If it belongs to another capability, they use its mailbox. */
void mrh_start(mr_token token, int kind, mr_handle handle);
void mrh_cancel(mr_token token);
/* Releases the token of an operation that no thread waits for. */
void mrh_release(mr_token token);
/* Ends a wait: lets the calling thread, which has waited, move again, and releases the token. */
void mrh_end_wait(uint64_t ticket);
/* mrh_end_wait and mrh_take_bytes in one call, which looks up the capability once. */
void mrh_end_receive(uint64_t ticket, mr_buffer *buffer, void *destination);
/* Copies all received bytes to `destination`, which has room for them, and gives the buffer back. */
void mrh_take_bytes(mr_buffer *buffer, void *destination);
/* For timeouts. Zero or less: at once. */
void mrh_start_after(mr_token token, int64_t delay_us);
void mrh_move_after(mr_token token, int64_t delay_us);
/* The timeout is due now. Unlike all other functions here, it is for OS threads that run no Haskell. [any thread] */
void mrh_fire(mr_token token);
/* True: it will not fire, and the token is reserved again. False: it has fired, or it belongs to another capability, where it
 * ends with -ECANCELED unless it fires before. */
bool mrh_stop(mr_token token);

/* A buffer of this capability's loop, or NULL if there is no memory. */
mr_buffer *mrh_borrow(void);
/* Does nothing with NULL. */
void mrh_give_back(mr_buffer *buffer);

/* For manager threads. MRH_NOT_OWNER: the thread is not (or no longer) on the loop's own capability, and must go there. */
enum { MRH_NOT_OWNER = -1 };
/* The number of completions, or MRH_NOT_OWNER. */
int mrh_poll(mr_loop *loop, mr_completion *completions, int capacity);
/* 1: the thread may call mr_loop_wait. 0: there is something to do. Or MRH_NOT_OWNER. */
int mrh_prepare_wait(mr_loop *loop);

/* The time on this capability's clock; and the time after a delay. Zero or less: now. */
uint64_t mrh_now_ns(void);
uint64_t mrh_deadline_after(int64_t delay_us);

#endif
