/*
 * http_list.h - lists of records that are linked through a pointer in each record. `link`: the offset of that pointer
 * to the next record. Must not know: requests, responses.
 */
#ifndef HTTP_LIST_H
#define HTTP_LIST_H

#include <stddef.h>

typedef struct http_list {
    void *first, *last;
} http_list;

static inline void **http_next_of(void *record, size_t link)
{
    return (void **)((char *)record + link);
}

static inline void http_list_append(http_list *list, size_t link, void *record)
{
    if (list->last == NULL)
        list->first = record;
    else
        *http_next_of(list->last, link) = record;
    list->last = record;
}

/* Takes the first record off. NULL: there is none. */
static inline void *http_list_shift(http_list *list, size_t link)
{
    void *record = list->first;
    if (record != NULL) {
        list->first = *http_next_of(record, link);
        if (list->first == NULL)
            list->last = NULL;
        *http_next_of(record, link) = NULL;
    }
    return record;
}

/* Takes time in proportion to the position of the record. */
static inline void http_list_remove(http_list *list, size_t link, void *record)
{
    void *previous = NULL;
    for (void *at = list->first; at != NULL; at = *http_next_of(at, link)) {
        if (at == record) {
            void **next = http_next_of(at, link);
            *(previous == NULL ? &list->first : http_next_of(previous, link)) = *next;
            if (list->last == at)
                list->last = previous;
            *next = NULL;
            return;
        }
        previous = at;
    }
}

#endif
