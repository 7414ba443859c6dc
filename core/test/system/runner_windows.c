/*
 * runner_windows.c: runner.h by starting this program again for each test, inside a job object.
 *
 * The process of a test is called with `--run NAME`. A thread of it watches the time, because only the process itself
 * knows where it is; the runner ends it if even that has stopped.
 */
#include "../runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { GRACE_MS = 5000 };

typedef struct running_test {
    const harness_test *test;
    HANDLE process;
    HANDLE job;    /* with all that the test has started */
    HANDLE output; /* a file that takes what the test prints */
    long long start_ms;
} running_test;

static running_test jobs[JOBS_MAX];
static unsigned running;
static source_line current_line;

source_line *runner_line(void)
{
    return &current_line;
}

/* Not exit: other threads are still running. */
void runner_leave(int status)
{
    TerminateProcess(GetCurrentProcess(), (UINT)status);
    abort();
}

static DWORD WINAPI watch_time(void *unused)
{
    (void)unused;
    Sleep(TIME_LIMIT_MS);
    fprintf(stderr, "no end after %d ms; last known line: %s:%d\n", TIME_LIMIT_MS,
            current_line.file ? current_line.file : "none", current_line.line);
    runner_leave(STATUS_FAILED);
}

static void run_here(const harness_test *tests, size_t count, const char *name)
{
    CreateThread(NULL, 0, watch_time, NULL, 0, NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(tests[i].name, name) == 0) {
            tests[i].run(tests[i].argument);
            exit(0);
        }
    }
    exit(2);
}

void runner_prepare(const harness_test *tests, size_t count, int argc, char **argv)
{
    /* A crash must end the process, and not show a dialog that nobody sees. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    if (argc == 3 && strcmp(argv[1], "--run") == 0)
        run_here(tests, count, argv[2]);
}

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "harness: %s failed: error %lu\n", what, GetLastError());
    exit(2);
}

static HANDLE new_output(void)
{
    char folder[MAX_PATH], path[MAX_PATH];
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    require(GetTempPathA(sizeof folder, folder) && GetTempFileNameA(folder, "out", 0, path), "a temporary name");
    HANDLE output = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited,
                                CREATE_ALWAYS, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    require(output != INVALID_HANDLE_VALUE, "a temporary file");
    return output;
}

static HANDLE new_job(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags =
                                                       JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    require(job && SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits), "a job");
    return job;
}

void runner_start(const harness_test *test)
{
    running_test *r = &jobs[running++];
    char program[MAX_PATH], command[2 * MAX_PATH];
    PROCESS_INFORMATION process;
    *r = (running_test){.test = test, .job = new_job(), .output = new_output(), .start_ms = runner_now_ms()};
    STARTUPINFOA startup = {
        .cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES, .hStdOutput = r->output, .hStdError = r->output};
    require(GetModuleFileNameA(NULL, program, sizeof program) > 0, "the program's own name");
    snprintf(command, sizeof command, "\"%s\" --run %s", program, test->name);
    require(CreateProcessA(program, command, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &startup, &process),
            "starting a process");
    /* Not inherited by the next test: it would find a descriptor more than a fresh process has. */
    SetHandleInformation(r->output, HANDLE_FLAG_INHERIT, 0);
    AssignProcessToJobObject(r->job, process.hProcess);
    ResumeThread(process.hThread);
    CloseHandle(process.hThread);
    r->process = process.hProcess;
}

static void print_output(HANDLE output)
{
    char buffer[4096];
    DWORD size;
    SetFilePointer(output, 0, NULL, FILE_BEGIN);
    while (ReadFile(output, buffer, sizeof buffer, &size, NULL) && size > 0)
        fwrite(buffer, 1, size, stdout);
}

static verdict judge(const running_test *r, DWORD status)
{
    if (status == 0)
        return PASSED;
    if (status == STATUS_SKIPPED)
        return SKIPPED;
    if (status != STATUS_FAILED)
        printf("ended with status 0x%lx\n", status);
    (void)r;
    return FAILED;
}

static verdict end_job(unsigned index)
{
    running_test r = jobs[index];
    DWORD status = STILL_ACTIVE;
    GetExitCodeProcess(r.process, &status);
    TerminateJobObject(r.job, STATUS_FAILED);
    verdict result = judge(&r, status);
    runner_report(r.test, result, runner_now_ms() - r.start_ms);
    if (result != PASSED)
        print_output(r.output);
    fflush(stdout);
    CloseHandle(r.process);
    CloseHandle(r.job);
    CloseHandle(r.output);
    jobs[index] = jobs[--running];
    return result;
}

verdict runner_await(void)
{
    HANDLE processes[JOBS_MAX];
    unsigned oldest = 0;
    for (unsigned i = 0; i < running; i++) {
        processes[i] = jobs[i].process;
        if (jobs[i].start_ms < jobs[oldest].start_ms)
            oldest = i;
    }
    long long left_ms = jobs[oldest].start_ms + TIME_LIMIT_MS + GRACE_MS - runner_now_ms();
    DWORD ended = WaitForMultipleObjects(running, processes, FALSE, left_ms > 0 ? (DWORD)left_ms : 0);
    return end_job(ended < running ? ended : oldest);
}
