#include "backend/xnnpack/place.h"

#include "assertion.h"

/*
 * Without copies: a part lives in the memory of its whole. A part in rows is a piece of each row of the whole, so all that touch it must be able to step
 * over the rest.
 */

static uint32_t root_of(struct place *p, uint32_t value)
{
    return value == VALUE_NONE ? CELL_NONE : place_root(p, p->cell_of[value]);
}

/* The set whose memory it is. */
static uint32_t top_of(const struct place *p, uint32_t root)
{
    while (p->cells[root].whole != CELL_NONE) {
        root = p->cells[root].whole;
    }
    return root;
}

/* The only value of its set: no view, nothing in place. */
static bool alone(const struct place *p, uint32_t root)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cell_count && count < 2; i++) {
        count += place_root((struct place *)(uintptr_t)p, i) == root;
    }
    return count == 1;
}

/* Can a step that touches the set step over what lies between its rows? */
static bool steps_over(struct place *p, const struct usage *u, uint32_t root)
{
    for (uint32_t k = 0; k < u->in_count; k++) {
        if (root_of(p, u->in[k]) == root && (k >= 32 || (u->rows_in >> k & 1) == 0)) {
            return false;
        }
    }
    for (uint32_t k = 0; k < u->out_count; k++) {
        if (root_of(p, u->out[k]) == root && (k > 0 || !u->rows_out)) {
            return false;
        }
    }
    return true;
}

/* `split`: the step that would have to write it, which has nothing to do then; UINT32_MAX = none. */
static bool all_step_over(struct place *p, const struct usage *uses, uint32_t count, uint32_t root, uint32_t split)
{
    for (uint32_t s = p->cells[root].first; s < count && s <= p->cells[root].last; s++) {
        if (s != split && !steps_over(p, &uses[s], root)) {
            return false;
        }
    }
    return !p->cells[root].solid;
}

/* Nobody writes into the whole, or what that is a part of, while the part is still to be read. */
static bool stays(const struct place *p, uint32_t part, uint32_t whole, uint32_t step)
{
    bool calm = true;
    for (uint32_t at = whole; at != CELL_NONE; at = p->cells[at].whole) {
        calm = calm && p->cells[at].write <= step;
    }
    return calm || p->cells[part].last <= step;
}

/* Elements of the last dim. */
static size_t row_length(const struct place *p, uint32_t value)
{
    const struct shape *s = &p->env->facts[value].shape;
    return s->rank > 0 ? (size_t)s->dim[s->rank - 1] : 1;
}

static void part_take(struct place *p, uint32_t part, uint32_t whole, const struct memory_part *how, size_t row)
{
    struct cell *c = &p->cells[part], *w = &p->cells[whole];
    PEN_ASSERT(how->offset + (how->rows ? 0 : c->bytes) <= w->bytes, "a part lies in its whole");
    c->whole = whole;
    c->at = how->offset;
    c->row = how->rows ? row : 0;
    w->solid = w->solid || !how->rows;
    for (uint32_t at = whole; at != CELL_NONE; at = p->cells[at].whole) {
        p->cells[at].first = c->first < p->cells[at].first ? c->first : p->cells[at].first;
        p->cells[at].last = c->last > p->cells[at].last ? c->last : p->cells[at].last;
        p->cells[at].used = true;
    }
}

static bool part_join(struct place *p, const struct usage *uses, uint32_t count, uint32_t step, uint32_t index)
{
    const struct usage *u = &uses[step];
    const uint32_t value = u->in_parts ? u->out[index] : u->in[index], all = u->in_parts ? u->in[0] : u->out[0];
    const uint32_t part = root_of(p, value), whole = root_of(p, all);
    if (part == CELL_NONE || whole == CELL_NONE || part == whole) {
        return false;
    }
    const struct cell *c = &p->cells[part], *w = &p->cells[whole];
    const struct memory_part *how = &u->parts[index];
    const bool fits =
        c->storage == STORE_ARENA && c->whole == CELL_NONE && c->bytes > 0 && top_of(p, whole) != part &&
        (w->storage == STORE_ARENA || w->storage == STORE_OUT || (u->in_parts && w->storage == STORE_IN)) &&
        (p->env->facts[value].dtype == PEN_DTYPE_F32 || how->offset % 64 == 0);
    if (!fits || !alone(p, part) || !stays(p, part, whole, step)) {
        return false;
    }
    if (how->rows ? !all_step_over(p, uses, count, part, u->in_parts ? step : UINT32_MAX) : top_of(p, whole) != whole) {
        return false;
    }
    part_take(p, part, whole, how, row_length(p, all));
    return true;
}

void parts_join(struct place *p, struct usage *uses, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        const uint32_t parts = uses[s].parts == NULL ? 0 : uses[s].in_parts ? uses[s].out_count : uses[s].in_count;
        uint32_t joined = 0;
        for (uint32_t k = 0; k < parts; k++) {
            joined += part_join(p, uses, count, s, k);
        }
        uses[s].aliased = uses[s].aliased || (parts > 0 && joined == parts);
    }
}

const struct cell *place_of_value(struct place *p, uint32_t value, size_t *ret_offset, size_t *ret_row)
{
    uint32_t root = root_of(p, value);
    *ret_offset = 0;
    *ret_row = 0;
    for (; p->cells[root].whole != CELL_NONE; root = p->cells[root].whole) {
        *ret_offset += p->cells[root].at;
        *ret_row = p->cells[root].row;
    }
    return &p->cells[root];
}
