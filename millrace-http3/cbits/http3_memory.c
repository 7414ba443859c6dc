/*
 * http3_memory.c - the memory that the libraries have for a connection, which can be packed while the connection is
 * quiet. Must not know: libnghttp3, GHC, sockets.
 *
 * The libraries have some fifty kilobytes for a connection in about seventy blocks, and two thirds of that are zeros:
 * memory for objects that may come. They have no setting for less. So each connection has a cell: a piece of address
 * space for its blocks. When the connection is quiet, the words that are not zero are copied to a block of malloc,
 * and the cell's pages are given back. When a packet arrives, the words are put back to where they were, so that
 * every pointer to them is right again.
 *
 * A cell is larger than what most connections need. What does not fit comes from malloc, and stays when the cell is
 * packed.
 *
 * Whatever the libraries have not given back when a connection ends is given back then. ngtcp2 1.11 forgets some
 * frames: those with more than four pieces that it has cut to four.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "http3_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "http_memory.h"
#include "millrace_check.h"

#define CELL_SIZE  262144u
#define SLAB_CELLS 64u
#define STEP       16u

/* Cells are made a slab at a time, because the system limits the mappings of a process (vm.max_map_count). */
typedef struct http3_slab {
    struct http3_slab *next;
    uint8_t *start;
} http3_slab;

/* Before each block of a cell is its size. A free block has the offset of the next one of its size. */
typedef struct block_head {
    uint64_t size; /* a multiple of STEP, this record included */
} block_head;

/* Before each block of malloc. */
typedef struct http3_outside {
    struct http3_outside *next, *previous;
    uint64_t size;   /* without this record */
    uint64_t unused; /* so that the block is aligned */
} outside_head;

/* Sizes differ by STEP, and those of large blocks by COARSE. */
#define FINE_MOST  1024u
#define COARSE     512u
#define BLOCK_MOST 16384u
#define FINE_LISTS (FINE_MOST / STEP)
#define LIST_COUNT (FINE_LISTS + BLOCK_MOST / COARSE)

/* At the beginning of a cell. It is packed with the blocks. */
typedef struct lists {
    uint32_t first[LIST_COUNT + 1]; /* by size; 0: none */
} lists;

/* The first block begins behind the lists and its head, at a multiple of STEP. */
#define FIRST ((sizeof(lists) + sizeof(block_head) + STEP - 1) / STEP * STEP)

static size_t rounded(size_t size)
{
    size_t whole = size + sizeof(block_head);
    size_t step = whole <= FINE_MOST ? STEP : COARSE;
    return (whole + step - 1) / step * step;
}

static size_t list_of(size_t whole)
{
    return whole <= FINE_MOST ? whole / STEP : FINE_LISTS + whole / COARSE;
}

static block_head *head_of(void *block)
{
    return (block_head *)block - 1;
}

static int is_inside(const http3_memory *memory, const void *block)
{
    uintptr_t at = (uintptr_t)block, start = (uintptr_t)memory->cell;
    return memory->cell != NULL && at >= start && at < start + CELL_SIZE;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Cells */

static int push_free(http3_cells *cells, uint8_t *cell)
{
    if (cells->free_count == cells->free_capacity) {
        uint32_t capacity = cells->free_capacity == 0 ? SLAB_CELLS : 2 * cells->free_capacity;
        uint8_t **all = realloc(cells->free, capacity * sizeof *all);
        if (all == NULL)
            return -1;
        cells->free = all;
        cells->free_capacity = capacity;
    }
    cells->free[cells->free_count++] = cell;
    return 0;
}

static int add_slab(http3_cells *cells)
{
    http3_slab *slab = malloc(sizeof *slab);
    if (slab == NULL)
        return -1;
    void *start = mmap(NULL, (size_t)CELL_SIZE * SLAB_CELLS, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        free(slab);
        return -1;
    }
    (void)madvise(start, (size_t)CELL_SIZE * SLAB_CELLS, MADV_NOHUGEPAGE);
    *slab = (http3_slab){cells->slabs, start};
    cells->slabs = slab;
    for (unsigned i = SLAB_CELLS; i > 0; i--)
        if (push_free(cells, slab->start + (size_t)(i - 1) * CELL_SIZE) != 0)
            return -1;
    return 0;
}

void http3_cells_free(http3_cells *cells)
{
    while (cells->slabs != NULL) {
        http3_slab *slab = cells->slabs;
        cells->slabs = slab->next;
        (void)munmap(slab->start, (size_t)CELL_SIZE * SLAB_CELLS);
        free(slab);
    }
    free(cells->free);
    *cells = (http3_cells){0};
}

void http3_memory_begin(http3_memory *memory, http3_cells *cells)
{
    *memory = (http3_memory){0};
    if (!HTTP3_HAS_CELLS)
        return;
    if (cells->free_count == 0 && add_slab(cells) != 0 && cells->free_count == 0)
        return;
    memory->cell = cells->free[--cells->free_count];
    memory->used = FIRST - sizeof(block_head);
}

/* Gives the pages back to the system, so that they are zero when they are touched again. */
static int empty(http3_memory *memory)
{
    return madvise(memory->cell, memory->used, MADV_DONTNEED);
}

void http3_memory_end(http3_memory *memory, http3_cells *cells)
{
    free(memory->packed);
    while (memory->outside != NULL) {
        outside_head *first = memory->outside;
        memory->outside = first->next;
        http_free(first);
    }
    /* Where pages are locked they cannot be given back. */
    if (memory->cell != NULL) {
        if (empty(memory) != 0)
            memset(memory->cell, 0, memory->used);
        (void)push_free(cells, memory->cell); /* without memory it is lost until the end */
    }
    *memory = (http3_memory){0};
}

/* ------------------------------------------------------------------------------------------------------------------
 * Blocks */

/* A block of the cell, or NULL. Says whether it is known to be zero. */
static void *alloc_inside(http3_memory *memory, size_t size, int *is_zero)
{
    if (memory->cell == NULL || size > BLOCK_MOST - sizeof(block_head))
        return NULL;
    size_t whole = rounded(size);
    uint32_t *first = &((lists *)memory->cell)->first[list_of(whole)]; /* NOLINT: it is aligned */
    if (*first != 0) {
        uint8_t *block = memory->cell + *first;
        memcpy(first, block, sizeof *first);
        *is_zero = 0;
        return block;
    }
    if (whole > CELL_SIZE - memory->used)
        return NULL;
    uint8_t *block = memory->cell + memory->used + sizeof(block_head);
    head_of(block)->size = whole;
    memory->used += (uint32_t)whole;
    *is_zero = 1;
    return block;
}

static uint64_t size_of(const http3_memory *memory, void *block)
{
    return is_inside(memory, block) ? head_of(block)->size - sizeof(block_head) : ((outside_head *)block - 1)->size;
}

/* A block of malloc. */
static void *alloc_outside(http3_memory *memory, size_t size)
{
    outside_head *head = size > SIZE_MAX - sizeof *head ? NULL : http_alloc(sizeof *head + size);
    if (head == NULL)
        return NULL;
    *head = (outside_head){.next = memory->outside, .size = size};
    if (head->next != NULL)
        head->next->previous = head;
    memory->outside = head;
    return head + 1;
}

static void free_outside(http3_memory *memory, outside_head *head)
{
    if (head->next != NULL)
        head->next->previous = head->previous;
    if (head->previous != NULL)
        head->previous->next = head->next;
    else
        memory->outside = head->next;
    http_free(head);
}

/* Says whether the block is known to be zero. */
static void *alloc_block(http3_memory *memory, size_t size, int *is_zero)
{
    *is_zero = 0;
    void *block = alloc_inside(memory, size, is_zero);
    if (block == NULL)
        block = alloc_outside(memory, size);
    if (block != NULL)
        memory->bytes += size_of(memory, block);
    return block;
}

void *http3_memory_alloc(http3_memory *memory, size_t size)
{
    int is_zero;
    return alloc_block(memory, size, &is_zero);
}

void *http3_memory_alloc_zeroed(http3_memory *memory, size_t size)
{
    int is_zero;
    void *block = alloc_block(memory, size, &is_zero);
    if (block != NULL && !is_zero)
        memset(block, 0, size);
    return block;
}

void http3_memory_free(http3_memory *memory, void *block)
{
    if (block == NULL)
        return;
    memory->bytes -= size_of(memory, block);
    if (!is_inside(memory, block)) {
        free_outside(memory, (outside_head *)block - 1);
        return;
    }
    uint32_t *first = &((lists *)memory->cell)->first[list_of(head_of(block)->size)]; /* NOLINT: it is aligned */
    memcpy(block, first, sizeof *first);
    *first = (uint32_t)((uint8_t *)block - memory->cell);
}

void *http3_memory_realloc(http3_memory *memory, void *block, size_t size)
{
    uint64_t before = block == NULL ? 0 : size_of(memory, block);
    if (block != NULL && size <= before && size > before / 2)
        return block;
    void *resized = http3_memory_alloc(memory, size);
    if (resized != NULL && block != NULL) {
        memcpy(resized, block, before < size ? before : size);
        http3_memory_free(memory, block);
    }
    return resized;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Packing */

#define WORDS_MOST (CELL_SIZE / sizeof(uint64_t))

/* Free blocks have what was in them. */
static void clear_free(const http3_memory *memory)
{
    const lists *all = (const lists *)memory->cell; /* NOLINT: it is aligned */
    for (size_t list = 0; list <= LIST_COUNT; list++)
        for (uint32_t at = all->first[list]; at != 0; memcpy(&at, memory->cell + at, sizeof at))
            memset(memory->cell + at + sizeof at, 0, head_of(memory->cell + at)->size - sizeof(block_head) - sizeof at);
}

int http3_memory_pack(http3_memory *memory)
{
    uint64_t map[WORDS_MOST / 64]; /* a bit for each word that is not zero */
    if (memory->cell == NULL || memory->packed != NULL)
        return 0;
    clear_free(memory);
    const uint64_t *words = (const uint64_t *)memory->cell; /* NOLINT: it is aligned */
    size_t count = memory->used / sizeof(uint64_t), maps = (count + 63) / 64, kept = 0;
    memset(map, 0, maps * sizeof *map);
    for (size_t i = 0; i < count; i++) {
        map[i / 64] |= (uint64_t)(words[i] != 0) << i % 64;
        kept += words[i] != 0;
    }
    uint64_t *packed = malloc((maps + kept) * sizeof *packed);
    if (packed == NULL)
        return 0;
    memcpy(packed, map, maps * sizeof *packed);
    uint64_t *next = packed + maps;
    for (size_t i = 0; i < count; i++)
        if (words[i] != 0)
            *next++ = words[i];
    MR_CHECK(next == packed + maps + kept);
    if (empty(memory) != 0) {
        free(packed);
        return 0;
    }
    memory->packed = (uint8_t *)packed;
    return 1;
}

void http3_memory_unpack(http3_memory *memory)
{
    if (memory->packed == NULL)
        return;
    const uint64_t *packed = (const uint64_t *)memory->packed; /* NOLINT: it is aligned */
    uint64_t *words = (uint64_t *)memory->cell;                /* NOLINT: it is aligned */
    size_t count = memory->used / sizeof(uint64_t), maps = (count + 63) / 64;
    const uint64_t *next = packed + maps;
    for (size_t i = 0; i < maps; i++)
        for (uint64_t left = packed[i]; left != 0; left &= left - 1)
            words[64 * i + (size_t)__builtin_ctzll(left)] = *next++;
    free(memory->packed);
    memory->packed = NULL;
}
