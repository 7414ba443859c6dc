/* memory_test.c - the tests of this folder. With faults, each of them runs again and again, and a call of the C files
 * fails. */
#include "memory_test.h"

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"
#endif

int main(int argc, char **argv)
{
    static const harness_test tests[] = {
        {"texts/names", known_names, 0},
        {"texts/lists", lists_of_tokens, 0},
        {"texts/errors", errors, 0},
        {"texts/bytes", classes_of_bytes, 0},
        {"texts/authorities", authorities, 0},
        {"dates/as-the-c-library", dates_as_the_c_library, 0},
        {"dates/refused", dates_refused, 0},
        {"dates/two-digits", dates_of_two_digits, 0},
        {"request/head", request_head, 0},
        {"request/refused", requests_refused, 0},
        {"request/limits", request_limits, 0},
        {"request/targets", request_targets, 0},
        {"request/hosts", request_hosts, 0},
        {"request/cookies", request_cookies, 0},
        {"request/trailers", request_trailers, 0},
        {"response/block", response_block, 0},
        {"response/lengths", response_lengths, 0},
        {"response/refused", responses_refused, 0},
        {"response/values", response_values, 0},
        {"response/head", response_head, 0},
        {"response/head-in-any-space", response_head_in_any_space, 0},
        {"response/framing", framing, 0},
        {"bodies/taken", body_taken, 0},
        {"bodies/given", body_given, 0},
        {"bodies/blocks", blocks_of_memory, 0},
        {"bodies/growing", growing_memory, 0},
        {"conduct/bucket", bucket, 0},
        {"conduct/verdicts", conduct, 0},
        {"conduct/told", limits_told, 0},
        {"system/files", files, 0},
        {"system/files-refused", files_refused, 0},
        {"system/files-by-descriptor", files_by_descriptor, 0},
        {"system/folder-locks", folder_locks, 0},
        {"system/sockets", sockets, 0},
        {"system/kinds", kinds_of_descriptors, 0},
        {"system/random", random_bytes, 0},
    };
    enum { COUNT = sizeof tests / sizeof *tests };
    harness_announce_seed(argc, argv);
#ifdef MEMORY_WITH_FAULTS
    return fault_main(tests, COUNT, argc, argv);
#else
    return harness_main(tests, COUNT, argc, argv);
#endif
}
