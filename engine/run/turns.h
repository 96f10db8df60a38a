/*
 * turns.h - memory and limits of a loop's turns: what one turn needs is given back before the next, what is carried lies in two arenas by turns, what is
 * collected in a third. A loop runs in the memory of two turns and its results, however often it turns.
 *
 * The first turns use the run's arena alone: short loops cost nothing more. Texts are never copied, so that loops over them keep all turns' memory.
 * Threads: one-at-a-time.
 */
#ifndef TURNS_H
#define TURNS_H

#include "run/rt_arena.h"

#define TURNS_MAX                                                                                                      \
    UINT64_C(                                                                                                          \
        10000000) /* of all loops of a run together: a loop that never ends ends here, in 5 to 20 s without a deadline */
#define TURNS_SMALL 8 /* turns before memory is given back */

struct turns {
    struct rt_arena *run;
    struct rt_arena keep[2], items;
    struct rt_mark mark;
    uint64_t count, *total;
    bool apart, texts;
};

/* run: the arena that everything else of the run takes; total: turns of the run so far. Both borrowed until turns_fini. */
void turns_init(struct turns *t, struct rt_arena *run, uint64_t *total);
void turns_fini(struct turns *t);
/* Before each turn. PEN_ERR_CANCELLED, or PEN_ERR_TOO_LARGE beyond TURNS_MAX. */
enum pen_status turns_next(struct turns *t, struct kernel_call *k);
/* Where this turn's carried and collected values go. */
struct rt_memory *turns_keep(struct turns *t);
struct rt_memory *turns_items(struct turns *t);
/* A value that is carried or collected. */
void turns_see(struct turns *t, const struct rt_value *v);

#endif
