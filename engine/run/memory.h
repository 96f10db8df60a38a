/*
 * memory.h - the sums of pen_memory(): what all models, sessions and tensors of the process hold, and the highest that it ever was.
 *
 * Threads: any.
 */
#ifndef RUN_MEMORY_H
#define RUN_MEMORY_H

#include <stdint.h>

/* So many tensors more, with so many bytes (fewer: negative). */
void memory_tensors_book(int64_t tensors, int64_t bytes);

/* After every change of a sum: the peak, and those of the marks. */
void memory_peak_note(void);

/* The highest sum while a mark stands. Owner: who begins and ends it; the memory is the caller's. */
struct memory_mark {
    uint64_t peak_bytes;
    struct memory_mark *next;
};
void memory_mark_begin(struct memory_mark *mark);
void memory_mark_end(struct memory_mark *mark);

#endif
