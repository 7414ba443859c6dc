/*
 * capability.h: which loop belongs to the capability that is running this call.
 *
 * ghc/ has everything that this file needs of GHC's run-time system. Haskell calls every function here by an `unsafe`
 * foreign call. While such a call runs, nothing else runs on its capability, so the caller owns that capability's loop.
 * The function looks up the capability inside the call, so the calling thread cannot migrate between look-up and use.
 */
#ifndef MILLRACE_CAPABILITY_H
#define MILLRACE_CAPABILITY_H

#include "millrace.h"

#include <stdbool.h>

/*
 * What mrh_submit and mrh_reserve return. A foreign call returns one word: (value << 2) | one of these;
 * Millrace.Internal.CoreCalls takes it apart. The value is the token or ticket (MRH_STAYS) of a pending operation, the
 * result of one that has ended, or 0.
 */
enum {
    MRH_PENDING = 0,
    MRH_DONE = 1,
    MRH_NO_LOOP = 2, /* this capability has no loop yet: the caller starts the managers, then tries again */
    MRH_DISABLED = 3 /* a bound thread on a capability that setNumCapabilities has switched off */
};

/* A token is less than 2^60. This bit above it says that the thread stays on its capability while it waits. Token and
 * bit together are the operation's ticket. */
#define MRH_STAYS (UINT64_C(1) << 60)

/*
 * The user data of a request. With MRH_CALLBACK, the manager runs a callback instead of waking a thread. In a
 * simulation, the bits from MRH_THREAD_SHIFT up are the number of the thread that submitted the operation.
 */
enum { MRH_CALLBACK = 1, MRH_THREAD_SHIFT = 1 };

/* The index of a simulation's loop. No real loop has it. */
#define MRH_SIMULATED_LOOP (MR_LOOPS_MAX - 1)

/* Creates the process's group, together with the first `loop_count` loops, which mrh_create_loop then returns. If the
 * backend is chosen automatically, it is one that can have all these loops. To be called once. Returns 0 or a negative
 * errno. */
int mrh_create_group(int backend, unsigned loop_count);
bool mrh_has_group(void);
/* The backend of the group (mr_backend). The group must exist. */
int mrh_backend(void);
/* True if a group can adopt the descriptors that this capability creates: the process's, or a simulation's. */
bool mrh_can_adopt(void);

/* The number of forks between the first process and this one. */
int64_t mrh_epoch(void);

/* Returns 0 or a negative errno. */
int mrh_create_loop(mr_loop **loop);
/* For the end of the run-time system: stops the helper threads and wakes every loop that sleeps. Does nothing if the
 * process has forked since `of_epoch` (see mrh_epoch). [any thread] */
void mrh_wake_all(void *of_epoch);
/* The capability that the caller runs on. */
void *mrh_capability(void);
/* Makes `loop` the loop of `capability`, which has this number. */
void mrh_attach(mr_loop *loop, unsigned number, void *capability);

/* Makes a simulation's loop the loop of this capability. NULL ends that. */
void mrh_attach_simulation(mr_loop *loop);
/* True if a simulation runs on this capability. */
bool mrh_is_simulated_here(void);

/* See mr_group_adopt. Returns a handle or a negative errno. */
int64_t mrh_adopt(int descriptor);
/* See mr_group_is_open. */
bool mrh_is_open(mr_handle handle);
/* See mr_group_hold. Returns 0 or a negative errno. */
int mrh_hold(mr_handle handle);
/* Undoes mrh_hold. */
void mrh_release_handle(mr_handle handle);
/* See mr_group_set_deadline. Returns 0 or a negative errno. */
int mrh_set_deadline(mr_handle handle, int direction, uint64_t deadline_ns);
/* See mr_group_interrupt. */
void mrh_retry_waiting(mr_handle handle);

/* Submits an operation on this capability's loop (see MRH_PENDING). If a receive into a borrowed buffer received bytes,
 * its value is the buffer's address, here and in mrh_poll's results. */
int64_t mrh_submit(int kind, unsigned flags, mr_handle handle, void *buffer, uint64_t length, uint64_t deadline_ns,
                   int file, uint64_t offset);

/* Reserves a token on this capability's loop: MRH_DONE with the token, or with a negative errno. */
int64_t mrh_reserve(int kind);
/* These functions find the loop by the token. If it belongs to another capability, they use its mailbox. */
void mrh_start(mr_token token, int kind, mr_handle handle);
void mrh_cancel(mr_token token);
/* Releases the token of an operation that no thread waits for. */
void mrh_release(mr_token token);
/* Ends the wait of the calling thread: releases the token, and lets GHC move the thread again. */
void mrh_end_wait(uint64_t ticket);
/* mrh_end_wait and mrh_take_bytes in one call, which looks up the capability once. */
void mrh_end_receive(uint64_t ticket, mr_buffer *buffer, void *destination);
/* Copies the received bytes to `destination`, which must be large enough, and returns the buffer to its loop. */
void mrh_take_bytes(mr_buffer *buffer, void *destination);
/* Starts a timer, or changes when it fires. With a delay of zero or less it fires at once. */
void mrh_start_timer(mr_token token, int64_t delay_us);
void mrh_move_timer(mr_token token, int64_t delay_us);
/* Makes a timer fire now. Unlike the other functions here, this one is for OS threads that run no Haskell. [any
 * thread] */
void mrh_fire_timer(mr_token token);
/* Stops a timer. True: it will not fire, and the token is reserved again. False: it has fired; or it belongs to another
 * capability, where it ends with -ECANCELED unless it fires first. */
bool mrh_stop_timer(mr_token token);

/* A buffer of this capability's loop, or NULL if there is no memory. */
mr_buffer *mrh_borrow_buffer(void);
/* Does nothing with NULL. */
void mrh_return_buffer(mr_buffer *buffer);

/* For manager threads. MRH_NOT_OWNER: the thread does not run on the loop's capability (any more), and must move
 * there. */
enum { MRH_NOT_OWNER = -1 };
/* See mr_loop_poll. Returns the number of completions, or MRH_NOT_OWNER. */
int mrh_poll(mr_loop *loop, mr_completion *completions, int capacity);
/* See mr_loop_prepare_wait. Returns 1 if the thread may call mr_loop_wait, 0 if the loop has something to do, or
 * MRH_NOT_OWNER. */
int mrh_prepare_wait(mr_loop *loop);

/* The time on this capability's clock. */
uint64_t mrh_now_ns(void);

#endif
