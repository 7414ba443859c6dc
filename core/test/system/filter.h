/*
 * filter.h: system calls that the kernel refuses to this process and to what it starts (seccomp(2)). Linux only.
 */
#ifndef MILLRACE_TEST_FILTER_H
#define MILLRACE_TEST_FILTER_H

/* From here on, one system call gets `action` (SECCOMP_RET_...). 0, or a negative errno: -ENOTSUP on a processor that
 * is not known here. */
int filter_system_call(unsigned number, unsigned action);

#endif
