/* counted.c - XNNPACK's own memory (operators, addresses of pixels), charged to the exec that a thread is about. */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/plan.h"
#include "backend/xnnpack/xnn_compat.h"

static _Thread_local int64_t *account;

void xnn_charge(int64_t *bytes)
{
    account = bytes;
}

static void *taken(void *memory)
{
    if (memory != NULL && account != NULL) {
        *account += (int64_t)malloc_usable_size(memory);
    }
    return memory;
}

static void *aligned_allocate(void *context, size_t alignment, size_t size)
{
    void *memory = NULL;
    (void)context;
    return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) == 0 ? taken(memory)
                                                                                                       : NULL;
}

static void *allocate(void *context, size_t size)
{
    return aligned_allocate(context, _Alignof(max_align_t), size);
}

static void deallocate(void *context, void *pointer)
{
    (void)context;
    if (pointer != NULL && account != NULL) {
        *account -= (int64_t)malloc_usable_size(pointer);
    }
    free(pointer);
}

static void *reallocate(void *context, void *pointer, size_t size)
{
    void *memory = allocate(context, size);
    if (memory != NULL && pointer != NULL) {
        size_t old = malloc_usable_size(pointer);
        memcpy(memory, pointer, old < size ? old : size);
        deallocate(context, pointer);
    }
    return memory;
}

const struct xnn_allocator *xnn_counted(void)
{
    static const struct xnn_allocator counted = {.allocate = allocate,
                                                 .reallocate = reallocate,
                                                 .deallocate = deallocate,
                                                 .aligned_allocate = aligned_allocate,
                                                 .aligned_deallocate = deallocate};
    return &counted;
}
