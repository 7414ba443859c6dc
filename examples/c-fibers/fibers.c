/* A thousand fibers that sleep at the same time, on a few OS threads. */
#include <millrace_fiber.h>
#include <stdio.h>
#include <unistd.h>

static void *nap(void *slept)
{
    sleep(1);
    mr_semaphore_post(slept);
    return NULL;
}

int main(void)
{
    mr_semaphore *slept;
    if (mr_semaphore_create(&slept, 0) != 0)
        return 1;
    for (int i = 0; i < 1000; i++)
        if (mr_fiber_spawn(NULL, NULL, nap, slept) != 0)
            return 1;
    for (int i = 0; i < 1000; i++)
        mr_semaphore_wait(slept, MR_NO_DEADLINE);
    printf("1000 fibers have slept\n");
    mr_carriers_stop();
    mr_semaphore_destroy(slept);
    return 0;
}
