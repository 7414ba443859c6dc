/* short_stack.h: a waiting thread whose stack ends where the memory does. For tests. */
#ifndef SHORT_STACK_H
#define SHORT_STACK_H

/* Has what wakes such a thread fetched, in a child process. 0: that went well; otherwise how the child ended. */
int fetch_short_stack(void);

#endif
