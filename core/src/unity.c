/*
 * unity.c: the core as one translation unit, for releases: the compiler sees through the calls between its files. The
 * tests compile each file by itself.
 *
 * Left out are backends other than epoll, and the simulated machine. A static name must be unique among the files
 * below.
 */
#include "backend.c"
#include "buffer.c"
#include "cache.c"
#include "check.c"
#include "clock.c"
#include "closing.c"
#include "deadline.c"
#include "descriptor.c"
#include "group.c"
#include "handle.c"
#include "lifetime.c"
#include "loop.c"
#include "mailbox.c"
#include "message.c"
#include "operation.c"
#include "perform.c"
#include "pool.c"
#include "request.c"
#include "send_then_receive.c"
#include "shutdown.c"
#include "slot.c"
#include "timeout.c"
#include "timer.c"
#ifndef _WIN32
#include "attempt.c"
#include "readiness.c"
#endif
#ifdef __linux__
#include "backend/epoll.c"
#include "epoll_poller.c"
#include "eventfd.c"
#endif
