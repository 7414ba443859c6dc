/* writes.c: if the system writes 0 bytes, every operation that writes fails; see has_written_nothing. */
#include "../conform/conform.h"
#include "fault.h"

#include <sys/uio.h>
#include <unistd.h>

static int64_t result_of(driver *d, mr_request request)
{
    fault_set_writes(FAULT_WRITES_OF_NOTHING);
    mr_completion completion = perform(d, request);
    fault_set_writes(FAULT_WRITES_AS_USUAL);
    CHECK_EQ(completion.transferred, 0);
    return completion.result;
}

static const uint32_t some_or_all[] = {0, MR_ALL};

static void a_send_of_nothing_fails(void)
{
    connection c = tcp_connection();
    for (int i = 0; i < 2; i++) {
        struct iovec vector[] = {{"", 0}, {"ab", 2}};
        mr_request sending = send_request(c.handle, "ab", 2);
        sending.flags = some_or_all[i];
        CHECK_EQ(result_of(c.d, sending), -EIO);
        CHECK_EQ(result_of(c.d, (mr_request){.kind = MR_SEND_VECTOR,
                                             .flags = some_or_all[i],
                                             .handle = c.handle,
                                             .buffer = vector,
                                             .length = 2}),
                 -EIO);
    }
    driver_free(c.d);
}

static void what_has_no_bytes_is_sent(void)
{
    connection c = tcp_connection();
    struct iovec vector[] = {{"", 0}, {"", 0}};
    CHECK_EQ(result_of(c.d, send_request(c.handle, "", 0)), 0);
    CHECK_EQ(result_of(c.d, (mr_request){.kind = MR_SEND_VECTOR, .handle = c.handle, .buffer = vector, .length = 2}),
             0);
    driver_free(c.d);
}

static void a_write_of_nothing_to_a_file_fails(void)
{
    driver *d = driver_new();
    FILE *file = tmpfile();
    CHECK(file);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(result_of(d, (mr_request){.kind = MR_WRITE_FILE,
                                           .flags = some_or_all[i],
                                           .handle = adopt(d, dup(fileno(file))),
                                           .buffer = "ab",
                                           .length = 2}),
                 -EIO);
    fclose(file);
    driver_free(d);
}

const conform_case writes_of_nothing_cases[] = {
    CASE(a_send_of_nothing_fails),
    CASE(what_has_no_bytes_is_sent),
    CASE(a_write_of_nothing_to_a_file_fails),
    {0},
};
