/* descriptor_table.c: the descriptor numbers of a simulated machine, and the file of each. */
#include "descriptor_table.h"

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum { NUMBERS_MAX = (1 << 24) - MR_MACHINE_FIRST }; /* handle.h allows no higher numbers */

bool mr_machine_owns(int descriptor)
{
    return descriptor >= MR_MACHINE_FIRST;
}

mr_file *mr_machine_find(mr_machine *machine, int number)
{
    int index = number - MR_MACHINE_FIRST;
    return index >= 0 && index < machine->file_count ? machine->files[index] : NULL;
}

/* The free numbers are a heap. It may contain numbers that dup3 has used since; lowest_free skips them. */
static void sift_up(int *heap, size_t i)
{
    for (; i > 0 && heap[i] < heap[(i - 1) / 2]; i = (i - 1) / 2) {
        int held = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = held;
    }
}

static void sift_down(int *heap, size_t count)
{
    for (size_t i = 0, least;; i = least) {
        least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
            if (heap[child] < heap[least])
                least = child;
        if (least == i)
            return;
        int held = heap[i];
        heap[i] = heap[least];
        heap[least] = held;
    }
}

/* Frees a number. If the heap cannot grow, the number is never used again, which does no harm. */
static void free_number(mr_machine *machine, int index)
{
    if (machine->free_count == machine->free_capacity) {
        size_t capacity = machine->free_capacity ? machine->free_capacity * 2 : 64;
        int *grown = realloc(machine->free_numbers, capacity * sizeof *grown);
        if (!grown)
            return;
        machine->free_numbers = grown;
        machine->free_capacity = capacity;
    }
    machine->free_numbers[machine->free_count] = index;
    sift_up(machine->free_numbers, machine->free_count++);
}

static void drop_lowest(mr_machine *machine)
{
    machine->free_numbers[0] = machine->free_numbers[--machine->free_count];
    sift_down(machine->free_numbers, machine->free_count);
}

static int lowest_free(mr_machine *machine)
{
    while (machine->free_count && machine->files[machine->free_numbers[0]])
        drop_lowest(machine);
    return machine->free_count ? machine->free_numbers[0] : machine->file_count;
}

static bool grow_table(mr_machine *machine, int index)
{
    if (index < machine->file_capacity)
        return true;
    int capacity = machine->file_capacity ? machine->file_capacity : 64;
    while (capacity <= index)
        capacity *= 2;
    mr_file **files = realloc(machine->files, (size_t)capacity * sizeof *files);
    if (!files)
        return false;
    machine->files = files;
    machine->file_capacity = capacity;
    return true;
}

int mr_machine_check_limit(mr_machine *machine)
{
    int index = lowest_free(machine);
    uint32_t most = machine->plan.descriptors_max;
    if (index >= NUMBERS_MAX || index + MR_MACHINE_FIRST >= machine->limit ||
        (most && machine->state.open_descriptors >= most))
        return -EMFILE;
    return 0;
}

/* Assigns the file to an index that is free or was never used. */
static int install_at(mr_machine *machine, mr_file *file, int index)
{
    if (!grow_table(machine, index))
        return -ENOMEM;
    while (machine->file_count <= index) {
        machine->files[machine->file_count] = NULL;
        if (machine->file_count < index)
            free_number(machine, machine->file_count);
        machine->file_count++;
    }
    machine->files[index] = file;
    file->references++;
    machine->state.open_descriptors++;
    return index + MR_MACHINE_FIRST;
}

int mr_machine_install(mr_machine *machine, mr_file *file, int flags)
{
    int error = mr_machine_check_limit(machine);
    if (error)
        return error;
    file->is_non_blocking |= (flags & O_NONBLOCK) != 0;
    return install_at(machine, file, lowest_free(machine));
}

int mr_machine_close(mr_machine *machine, int number)
{
    int result = -EBADF;
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (file) {
        MR_TRACE(machine, "close %d", number);
        machine->files[number - MR_MACHINE_FIRST] = NULL;
        machine->state.open_descriptors--;
        free_number(machine, number - MR_MACHINE_FIRST);
        if (--file->references == 0)
            mr_file_free(machine, file);
        result = 0;
    }
    mr_machine_unlock(machine);
    return result;
}

int mr_machine_dup3(mr_machine *machine, int old, int number, int flags)
{
    int result = -EBADF;
    (void)flags; /* O_CLOEXEC has no effect: no program is executed here */
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, old);
    if (file && number == old) {
        result = -EINVAL;
    } else if (file && mr_machine_owns(number) && number - MR_MACHINE_FIRST < NUMBERS_MAX) {
        mr_machine_close(machine, number);
        result = install_at(machine, file, number - MR_MACHINE_FIRST);
    }
    mr_machine_unlock(machine);
    return result;
}

/* The lowest free number that is not below this one or the machine's first. */
static int duplicate_from(mr_machine *machine, mr_file *file, int lowest)
{
    int error = mr_machine_check_limit(machine);
    int index = mr_machine_owns(lowest) ? lowest - MR_MACHINE_FIRST : lowest;
    if (error || index >= NUMBERS_MAX)
        return error ? error : -EINVAL;
    while (index < machine->file_count && machine->files[index])
        index++;
    return install_at(machine, file, index);
}

int mr_machine_fcntl(mr_machine *machine, int number, int command, int argument)
{
    int result = -EINVAL;
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (!file)
        result = -EBADF;
    else if (command == F_GETFD)
        result = FD_CLOEXEC;
    else if (command == F_SETFD)
        result = 0;
    else if (command == F_GETFL)
        result = O_RDWR | (file->is_non_blocking ? O_NONBLOCK : 0);
    else if (command == F_DUPFD_CLOEXEC)
        result = duplicate_from(machine, file, argument);
    else if (command == F_SETFL) {
        file->is_non_blocking = (argument & O_NONBLOCK) != 0;
        result = 0;
    }
    mr_machine_unlock(machine);
    return result;
}

int mr_machine_limit(mr_machine *machine)
{
    return machine->limit;
}

void mr_machine_set_limit(mr_machine *machine, int limit)
{
    mr_machine_lock(machine);
    machine->limit = limit;
    mr_machine_unlock(machine);
}

void mr_machine_close_all(mr_machine *machine)
{
    for (int i = 0; i < machine->file_count; i++)
        mr_machine_close(machine, i + MR_MACHINE_FIRST);
}

void mr_machine_free_descriptors(mr_machine *machine)
{
    mr_machine_close_all(machine);
    free(machine->files);
    free(machine->free_numbers);
}
