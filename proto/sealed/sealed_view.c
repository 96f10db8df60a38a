#include "sealed_view.h"

#include "assertion.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define BUCKETS    1024u /* views are found by their address: pages differ in the bits above these */
#define PAGE_SHIFT 12u

struct view {
    struct view *next;
    struct sealed *block;
    const uint8_t *data;
    size_t offset, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct view *buckets[BUCKETS];

static struct view **bucket_of(const void *data)
{
    uintptr_t address = (uintptr_t)data;
    return &buckets[((address >> PAGE_SHIFT) ^ (address >> 22)) % BUCKETS];
}

void *sealed_view_new(struct sealed *block, size_t offset, size_t bytes, void **ret_hint)
{
    PEN_ASSERT(offset <= sealed_bytes(block) && bytes <= sealed_bytes(block) - offset, "a view lies within its block");
    struct view *view = malloc(sizeof *view);
    if (!view)
        return NULL;
    *view = (struct view){
        .block = sealed_retain(block), .data = sealed_data(block) + offset, .offset = offset, .bytes = bytes};
    pthread_mutex_lock(&lock);
    struct view **bucket = bucket_of(view->data);
    view->next = *bucket;
    *bucket = view;
    pthread_mutex_unlock(&lock);
    *ret_hint = view;
    return (void *)(uintptr_t)view->data;
}

void sealed_view_free(void *data, void *hint)
{
    struct view *view = hint;
    (void)data;
    pthread_mutex_lock(&lock);
    struct view **at = bucket_of(view->data);
    while (*at != view)
        at = &(*at)->next;
    *at = view->next;
    pthread_mutex_unlock(&lock);
    sealed_release(view->block);
    free(view);
}

struct sealed *sealed_view_find(const void *data, size_t bytes, size_t *ret_offset)
{
    struct sealed *block = NULL;
    pthread_mutex_lock(&lock);
    const struct view *view = *bucket_of(data);
    while (view && (view->data != data || view->bytes != bytes))
        view = view->next;
    if (view) {
        block = view->block;
        *ret_offset = view->offset;
    }
    pthread_mutex_unlock(&lock);
    return block;
}
