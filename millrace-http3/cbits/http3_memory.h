/*
 * http3_memory.h - the memory that the libraries have for a connection, which can be packed while the connection is
 * quiet. Must not know: libnghttp3, GHC, sockets.
 */
#ifndef HTTP3_MEMORY_H
#define HTTP3_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Without cells nothing is packed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HTTP3_HAS_CELLS 0 /* A sanitizer finds errors only in blocks of malloc. */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HTTP3_HAS_CELLS 0
#endif
#endif
#ifndef HTTP3_HAS_CELLS
#define HTTP3_HAS_CELLS 1
#endif

/* Cells: address space for the blocks of one connection each. */
typedef struct http3_cells {
    struct http3_slab *slabs;
    uint8_t **free;
    uint32_t free_count, free_capacity;
} http3_cells;

void http3_cells_free(http3_cells *cells);

/* The blocks of a connection. All zero: empty. */
typedef struct http3_memory {
    uint8_t *cell;                 /* NULL: all blocks are malloc's */
    struct http3_outside *outside; /* the blocks of malloc */
    uint8_t *packed;               /* what the cell has, while it is packed */
    uint32_t used;                 /* bytes of the cell that were ever handed out */
    uint64_t bytes;                /* of all blocks */
} http3_memory;

/* Begins with an empty cell, if there is address space for one. */
void http3_memory_begin(http3_memory *memory, http3_cells *cells);
/* Ends, and gives back the blocks that are left. */
void http3_memory_end(http3_memory *memory, http3_cells *cells);

/* As malloc, calloc, realloc and free. Not while the memory is packed. */
void *http3_memory_alloc(http3_memory *memory, size_t size);
void *http3_memory_alloc_zeroed(http3_memory *memory, size_t size);
void *http3_memory_realloc(http3_memory *memory, void *block, size_t size);
void http3_memory_free(http3_memory *memory, void *block);

/* Packs the cell: the blocks must not be touched until it is unpacked. They are where they were then. Returns whether
   it is packed. */
int http3_memory_pack(http3_memory *memory);
void http3_memory_unpack(http3_memory *memory);

#endif
