/* machine_faults.c: faults of connections on a simulated machine. */
#include "machine_world.h"

/* Each case gets a connection whose first operation has the fault listed with its name in FAULT_CASES. */

static void a_short_transfer(linked *l)
{
    char text[100] = "a text", received[100];
    int64_t sent = send_some(l, 0, text, sizeof text);
    CHECK_GT(sent, 0);
    CHECK_LE(sent, 8);
    CHECK_EQ(receive_some(l, 1, received, sizeof received), sent);
    CHECK_MEMORY(received, text, (size_t)sent);
}

static void a_delayed_completion(linked *l)
{
    char byte = 'x';
    mr_token sending = start(&l->w, transfer(MR_SEND, l->ends[0], &byte, 1));
    CHECK_EQ(receive_byte(l, 1), 1);    /* it has happened nevertheless */
    mr_loop_cancel(l->w.loop, sending); /* and cannot be undone */
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, sending);
    CHECK_EQ(l->w.last.result, 1);
    CHECK_GT(elapsed_ns(l), 0);
}

static void a_reset(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -ECONNRESET);
    CHECK_EQ(send_byte(l, 0), -EPIPE);
    CHECK_EQ(receive_byte(l, 1), -ECONNRESET);
    CHECK_EQ(receive_byte(l, 1), 0);
}

static void a_reset_afterwards(linked *l)
{
    CHECK_EQ(send_byte(l, 0), 1);
    CHECK_EQ(receive_byte(l, 1), -ECONNRESET);
}

static void a_half_close(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -EPIPE);
    CHECK_EQ(receive_byte(l, 1), 0);
    CHECK_EQ(send_byte(l, 1), 1); /* the other direction goes on */
    CHECK_EQ(receive_byte(l, 0), 1);
}

static void a_stall(linked *l)
{
    CHECK_EQ(send_byte(l, 0), 1);
    CHECK_EQ(receive_byte(l, 1), 1);
    CHECK_EQ(elapsed_ns(l), 30000 * NS_PER_MS);
}

static void scarce_buffers(linked *l)
{
    CHECK_EQ(send_byte(l, 0), -ENOBUFS);
}

static void an_interruption(linked *l)
{
    mr_counters counters;
    CHECK_EQ(send_byte(l, 0), 1); /* nobody sees an EINTR */
    mr_loop_counters(l->w.loop, &counters);
    CHECK_EQ(counters.resubmissions, 1);
    CHECK_EQ(receive_byte(l, 1), 1);
}

static mr_token cancelled_receive(linked *l, char *byte)
{
    mr_token receiving = start(&l->w, transfer(MR_RECV, l->ends[1], byte, 1));
    mr_loop_cancel(l->w.loop, receiving);
    CHECK_EQ(poll_loop(&l->w), 0);
    return receiving;
}

static void a_late_cancellation(linked *l)
{
    char byte = 0;
    mr_token receiving = cancelled_receive(l, &byte);
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, receiving);
    CHECK_EQ(l->w.last.result, -ECANCELED);
    CHECK_EQ(byte, 0);
}

/* A cancellation and bytes are in flight at the same time: the bytes win, and none is lost. */
static void a_cancellation_that_loses(linked *l)
{
    char byte = 0;
    mr_token receiving = cancelled_receive(l, &byte);
    CHECK_EQ(send_byte(l, 0), 1);
    run_until(&l->w, 1);
    CHECK_EQ(l->w.last.token, receiving);
    CHECK_EQ(l->w.last.result, 1);
    CHECK_EQ(byte, 'x');
    mr_machine_sleep(l->w.machine, 100 * NS_PER_MS);
    CHECK_EQ(poll_loop(&l->w), 0); /* when it comes, it does nothing */
}

#define FAULT_CASES(X)                  \
    X(a_short_transfer, SHORT)          \
    X(a_delayed_completion, DELAY)      \
    X(a_reset, RESET)                   \
    X(a_reset_afterwards, RESET_AFTER)  \
    X(a_half_close, HALF_CLOSE)         \
    X(a_stall, STALL)                   \
    X(scarce_buffers, NO_BUFFERS)       \
    X(an_interruption, INTERRUPTED)     \
    X(a_late_cancellation, LATE_CANCEL) \
    X(a_cancellation_that_loses, LATE_CANCEL)

#define FAULT_UNIT(function, fault) {"machine_faults/" #function, meet_fault, CASE_##function},

enum { FAULT_CASES(FAULT_NUMBER) };

static void meet_fault(uintptr_t number)
{
    static const struct {
        mr_fault fault;
        void (*run)(linked *l);
    } cases[] = {FAULT_CASES(FAULT_ENTRY)};
    linked l = new_faulty(cases[number].fault, 1);
    cases[number].run(&l);
    free_linked(&l);
}

/* A borrowed buffer belongs to the operation until its completion; short and late completions lose no buffer. */
static void borrowed_buffers_meet_faults(uintptr_t fault)
{
    char text[100] = "a text";
    linked l = new_faulty((mr_fault)fault, 2);
    CHECK_EQ(send_some(&l, 0, text, sizeof text), sizeof text);
    uint64_t received = 0;
    while (received < sizeof text) {
        mr_request borrowed = transfer(MR_RECV, l.ends[1], NULL, sizeof text);
        borrowed.flags = MR_BORROW;
        mr_completion completion = perform(&l.w, borrowed);
        CHECK_GT(completion.result, 0);
        CHECK_EQ(completion.buffer->length, completion.result);
        CHECK_MEMORY(completion.buffer->bytes, text + received, (size_t)completion.result);
        CHECK(received || fault != MR_FAULT_SHORT || completion.result <= 8);
        received += (uint64_t)completion.result;
        mr_loop_give_back(l.w.loop, completion.buffer);
    }
    CHECK_EQ(elapsed_ns(&l) > 0, fault == MR_FAULT_DELAY);
    free_linked(&l);
}

/* A send that sent nothing has a special result, which a delay must keep. */
static void a_delayed_send_then_receive_on_a_full_socket(uintptr_t unused)
{
    mr_planned_fault planned = {CONNECTION_OPERATIONS + 2, MR_FAULT_DELAY};
    linked l = new_linked(&(mr_machine_plan){.seed = 5, .buffer_bytes = 4, .planned = &planned, .planned_count = 1});
    (void)unused;
    CHECK_EQ(send_some(&l, 0, "full", 4), 4);
    mr_buffer *buffer = mr_loop_borrow(l.w.loop);
    CHECK(buffer);
    mr_request request = {.kind = MR_SEND_THEN_RECEIVE, .handle = l.ends[0], .buffer = buffer, .length = 10};
    CHECK_EQ(mr_sent_only(perform(&l.w, request).result), 0);
    CHECK_GT(elapsed_ns(&l), 0);
    mr_loop_give_back(l.w.loop, buffer);
    free_linked(&l);
}

static void scarce_descriptors(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_NO_DESCRIPTORS}, {2, MR_FAULT_NO_BUFFERS}, {6, MR_FAULT_NO_DESCRIPTORS}};
    linked l = {.w = new_world(&(mr_machine_plan){.planned = planned, .planned_count = 3})};
    (void)unused;
    CHECK_EQ(mr_machine_socket(l.w.machine, AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_EQ(mr_machine_socket(l.w.machine, AF_INET, SOCK_STREAM, 0), -ENOBUFS);
    connection(&l.w, l.ends); /* its accept, operation 6, tries again after 10 ms */
    CHECK_GE(elapsed_ns(&l), 10 * NS_PER_MS);
    free_linked(&l);
}

static void completions_come_in_any_order(uintptr_t unused)
{
    enum { COUNT = 8 };
    world w = new_world(&(mr_machine_plan){.seed = 3, .reorders = true});
    mr_handle ends[COUNT][2];
    char bytes[COUNT], byte = 'x';
    mr_token tokens[COUNT];
    mr_completion completions[COUNT];
    int out_of_order = 0;
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        connection(&w, ends[i]);
        tokens[i] = start(&w, transfer(MR_RECV, ends[i][1], &bytes[i], 1));
    }
    poll_loop(&w);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(perform(&w, transfer(MR_SEND, ends[i][0], &byte, 1)).result, 1);
    CHECK_EQ(mr_loop_poll(w.loop, completions, COUNT), COUNT);
    for (int i = 0; i < COUNT; i++) {
        out_of_order += completions[i].token != tokens[i];
        mr_loop_release(w.loop, completions[i].token);
        close_both(&w, ends[i]);
    }
    CHECK_GT(out_of_order, 0);
    free_world(&w);
}

const harness_test machine_faults_tests[] = {
    FAULT_CASES(FAULT_UNIT){"machine_faults/a_short_receive_into_a_borrowed_buffer", borrowed_buffers_meet_faults,
                            MR_FAULT_SHORT},
    {"machine_faults/a_delayed_receive_into_a_borrowed_buffer", borrowed_buffers_meet_faults, MR_FAULT_DELAY},
    {"machine_faults/an_interrupted_receive_into_a_borrowed_buffer", borrowed_buffers_meet_faults,
     MR_FAULT_INTERRUPTED},
    UNIT(machine_faults, a_delayed_send_then_receive_on_a_full_socket),
    UNIT(machine_faults, scarce_descriptors),
    UNIT(machine_faults, completions_come_in_any_order),
    {0},
};
