/* simulation.c: see simulation.h. Must not know: GHC. */
#include "simulation.h"

#include "capability.h"
#include "ghc/layout.h"
#include "ghc/scheduler.h"

#include <errno.h>
#include <time.h>

static mr_machine *machine;
static mr_group *group;
static mr_loop *loop;

static int begin(const mr_machine_plan *plan)
{
    int error = mr_machine_create(plan, &machine);
    if (error)
        return error;
    error = mr_machine_group(machine, &group);
    if (!error) {
        mr_group_number_from(group, MRH_SIMULATED_LOOP);
        error = mr_loop_create(group, &loop);
        if (error)
            mr_group_destroy(group);
    }
    if (error)
        mr_machine_destroy(machine);
    return error;
}

int mrh_simulation_begin(const mr_machine_plan *plan, mr_machine **new_machine, mr_loop **new_loop)
{
    if (loop)
        return -EBUSY;
    if (!mrh_layout_is_trusted())
        return -ENOTSUP;
    int error = begin(plan);
    if (error) {
        mrh_simulation_forget();
        return error;
    }
    mrh_stop_ticking();
    mrh_attach_simulation(loop);
    *new_machine = machine;
    *new_loop = loop;
    return 0;
}

void mrh_simulation_forget(void)
{
    machine = NULL;
    group = NULL;
    loop = NULL;
}

void mrh_simulation_abandon(void)
{
    mrh_attach_simulation(NULL);
    mrh_start_ticking();
    mrh_simulation_forget();
}

void mrh_simulation_end(void)
{
    mr_machine *old_machine = machine;
    mr_group *old_group = group;
    mr_loop *old_loop = loop;
    mrh_simulation_abandon();
    mr_loop_destroy(old_loop);
    mr_group_destroy(old_group);
    mr_machine_destroy(old_machine);
}

mr_machine *mrh_simulation_here(void)
{
    return mrh_is_simulated_here() ? machine : NULL;
}

mr_machine *mrh_simulation_machine(void)
{
    return machine;
}

mr_group *mrh_simulation_group(void)
{
    return group;
}

void mrh_simulation_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void mrh_simulation_note(mr_machine *where, const char *text)
{
    mr_machine_note(where, "%s", text);
    mrh_begin_nursery_block();
}

uint64_t mrh_simulation_random_here(uint64_t bound)
{
    return mrh_simulation_random(mrh_simulation_here(), bound);
}

uint64_t mrh_simulation_random(mr_machine *where, uint64_t bound)
{
    mrh_begin_nursery_block();
    return mr_machine_random(where, bound);
}
