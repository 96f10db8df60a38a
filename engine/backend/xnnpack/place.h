/*
 * place.h - where each value of an exec lives: a boundary buffer, a constant, or a piece of the arena; views and in-place results share.
 *
 * A cell is a value the partition touches. Cells that share memory form a set (union-find); a set has one storage.
 * Threads: one-at-a-time.
 */
#ifndef XNNPACK_PLACE_H
#define XNNPACK_PLACE_H

#include "backend/xnnpack/plan.h"

#define CELL_NONE UINT32_MAX

enum storage { STORE_ARENA = 0, STORE_IN, STORE_OUT, STORE_CONST };

struct cell {
    uint32_t value;
    uint32_t parent;      /* union-find */
    enum storage storage; /* of a root */
    uint32_t index;       /* STORE_IN, STORE_OUT: position in the partition's list */
    const void *data;     /* STORE_CONST */
    size_t bytes;         /* largest of the set */
    uint32_t first, last; /* steps that write first and read last */
    uint32_t write;       /* step that writes last, of the set; 0 too when nobody does */
    uint32_t whole;       /* of a root: the set that this one is a part of; CELL_NONE */
    size_t at, row;       /* of a part: bytes from the whole's start; elements between rows, 0 = in one piece */
    bool solid;           /* of a root: some part lies in one piece, so that rows of the whole must, too */
    size_t offset;        /* STORE_ARENA */
    bool used;
};

/* What a step does with its values, filled by exec.c from its build. */
struct usage {
    const uint32_t *in, *out; /* values, VALUE_NONE among them */
    uint32_t in_count, out_count;
    bool view, exclusive, rows_out, in_parts;
    uint32_t inplace, rows_in;
    const struct memory_part *parts;
    bool aliased; /* result: output 0 is input 0, nothing to run */
};

struct place {
    const struct shape_env *env;
    struct cell *cells;
    uint32_t cell_count;
    size_t cell_room;
    uint32_t *cell_of; /* [g->value_count]; CELL_NONE = not touched */
    size_t arena_bytes;
};

/* Cells for everything the partition touches. */
enum pen_status place_init(struct place *p, const struct plan *plan, const struct shape_env *env);
/* Joins views and in-place results. */
void place_join(struct place *p, struct usage *uses, uint32_t count);
/* Then lays out the arena. */
enum pen_status place_lay(struct place *p);
/* Between the two; parts.c: results that are going to be concatenated are written where they belong; pieces of a split are read where they lie. */
void parts_join(struct place *p, struct usage *uses, uint32_t count);
/* The set whose memory holds a value, and where in it; *ret_row: elements between its rows, 0 = they lie one after the other. */
const struct cell *place_of_value(struct place *p, uint32_t value, size_t *ret_offset, size_t *ret_row);
uint32_t place_root(struct place *p, uint32_t cell);
void place_fini(struct place *p);

#endif
