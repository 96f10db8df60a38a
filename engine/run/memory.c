#include "run/memory.h"

#include "assertion.h"
#include "run/internal.h"

struct engine_counters engine_counters;

/* Marks are rare: whoever books looks at their number and takes no lock where there is none. */
static pthread_mutex_t marks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory_mark *marks;
static atomic_uint mark_count;

static uint64_t bytes_now(void)
{
    return atomic_load(&engine_counters.weights_bytes) + atomic_load(&engine_counters.arena_bytes) +
           atomic_load(&engine_counters.tensor_bytes);
}

static void marks_raise(uint64_t bytes)
{
    pthread_mutex_lock(&marks_lock);
    for (struct memory_mark *m = marks; m != NULL; m = m->next) {
        m->peak_bytes = m->peak_bytes < bytes ? bytes : m->peak_bytes;
    }
    pthread_mutex_unlock(&marks_lock);
}

void memory_peak_note(void)
{
    const uint64_t bytes = bytes_now();
    uint64_t peak = atomic_load(&engine_counters.peak_bytes);
    while (bytes > peak && !atomic_compare_exchange_weak(&engine_counters.peak_bytes, &peak, bytes)) {
    }
    if (atomic_load(&mark_count) > 0) {
        marks_raise(bytes);
    }
}

void memory_tensors_book(int64_t tensors, int64_t bytes)
{
    const uint64_t count = atomic_fetch_add(&engine_counters.tensors, (uint64_t)tensors) + (uint64_t)tensors;
    const uint64_t held = atomic_fetch_add(&engine_counters.tensor_bytes, (uint64_t)bytes) + (uint64_t)bytes;
    PEN_ASSERT(count <= INT64_MAX && held <= INT64_MAX, "no more tensors go than came");
    memory_peak_note();
}

void memory_mark_begin(struct memory_mark *mark)
{
    pthread_mutex_lock(&marks_lock);
    *mark = (struct memory_mark){.peak_bytes = bytes_now(), .next = marks};
    marks = mark;
    atomic_fetch_add(&mark_count, 1);
    pthread_mutex_unlock(&marks_lock);
}

void memory_mark_end(struct memory_mark *mark)
{
    pthread_mutex_lock(&marks_lock);
    struct memory_mark **at = &marks;
    while (*at != mark) {
        PEN_ASSERT(*at != NULL, "a mark that ends was begun");
        at = &(*at)->next;
    }
    *at = mark->next;
    atomic_fetch_sub(&mark_count, 1);
    pthread_mutex_unlock(&marks_lock);
}

void pen_memory_peak_reset(void)
{
    atomic_store(&engine_counters.peak_bytes, bytes_now());
}

void pen_memory(struct pen_memory *ret_memory)
{
    *ret_memory = (struct pen_memory){
        .models = engine_counters.models,
        .sessions = engine_counters.sessions,
        .buckets = engine_counters.buckets,
        .weights_bytes = engine_counters.weights_bytes,
        .arena_bytes = engine_counters.arena_bytes,
        .tensors = engine_counters.tensors,
        .tensor_bytes = engine_counters.tensor_bytes,
        .bytes = bytes_now(),
        .peak_bytes = engine_counters.peak_bytes,
        .device_bytes = backend_device_bytes,
    };
}
