#include "backend/xnnpack/place.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/lifetime.h"

uint32_t place_root(struct place *p, uint32_t cell)
{
    while (p->cells[cell].parent != cell) {
        p->cells[cell].parent = p->cells[p->cells[cell].parent].parent;
        cell = p->cells[cell].parent;
    }
    return cell;
}

static uint32_t cell_add(struct place *p, const struct shape_env *env, uint32_t value)
{
    if (value == VALUE_NONE) {
        return CELL_NONE;
    }
    if (p->cell_of[value] != CELL_NONE) {
        return p->cell_of[value];
    }
    const struct fact *f = &env->facts[value];
    PEN_ASSERT(p->cell_count < p->cell_room, "every value that the partition touches has a cell");
    struct cell *c = &p->cells[p->cell_count];
    *c = (struct cell){.value = value, .parent = p->cell_count, .first = UINT32_MAX, .whole = CELL_NONE};
    if (f->data != NULL) {
        c->storage = STORE_CONST;
        c->data = f->data;
    }
    size_t bytes = 0;
    if (shape_bytes(&f->shape, f->dtype, 0, &bytes) == PEN_OK) {
        c->bytes = bytes;
    }
    p->cell_of[value] = p->cell_count;
    return p->cell_count++;
}

static size_t touched(const struct plan *plan)
{
    size_t count = (size_t)plan->part.in_count + plan->part.out_count;
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        const struct node *n = &plan->g->nodes[plan->part.nodes[i]];
        count += (size_t)n->in_count + n->out_count;
    }
    return count;
}

enum pen_status place_init(struct place *p, const struct plan *plan, const struct shape_env *env)
{
    *p = (struct place){.env = env};
    p->cell_of = malloc(((size_t)plan->g->value_count + 1) * sizeof *p->cell_of);
    p->cell_room = touched(plan) + 1;
    p->cells = malloc(p->cell_room * sizeof *p->cells);
    if (p->cell_of == NULL || p->cells == NULL) {
        place_fini(p);
        return PEN_ERR_NO_MEMORY;
    }
    memset(p->cell_of, 0xFF, ((size_t)plan->g->value_count + 1) * sizeof *p->cell_of);
    for (uint32_t i = 0; i < plan->part.in_count; i++) {
        struct cell *c = &p->cells[cell_add(p, env, plan->part.in[i])];
        if (c->storage != STORE_CONST) {
            c->storage = STORE_IN;
            c->index = i;
        }
    }
    for (uint32_t i = 0; i < plan->part.out_count; i++) {
        struct cell *c = &p->cells[cell_add(p, env, plan->part.out[i])];
        if (c->storage == STORE_ARENA) {
            c->storage = STORE_OUT;
            c->index = i;
        }
    }
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        const struct node *n = &plan->g->nodes[plan->part.nodes[i]];
        for (uint32_t k = 0; k < n->in_count; k++) {
            cell_add(p, env, n->in[k]);
        }
        for (uint32_t k = 0; k < n->out_count; k++) {
            cell_add(p, env, n->out[k]);
        }
    }
    return PEN_OK;
}

/* `from` joins `into`; the storage that is not the arena wins. */
static void sets_join(struct place *p, uint32_t into, uint32_t from)
{
    PEN_ASSERT(into != from && p->cells[into].parent == into && p->cells[from].parent == from,
               "two sets of cells are joined by their roots");
    struct cell *a = &p->cells[into];
    struct cell *b = &p->cells[from];
    if (a->storage == STORE_ARENA) {
        a->storage = b->storage;
        a->index = b->index;
        a->data = b->data;
    }
    a->bytes = a->bytes > b->bytes ? a->bytes : b->bytes;
    a->first = a->first < b->first ? a->first : b->first;
    a->last = a->last > b->last ? a->last : b->last;
    a->write = a->write > b->write ? a->write : b->write;
    b->parent = into;
}

static uint32_t cell_of(struct place *p, uint32_t value)
{
    return value == VALUE_NONE ? CELL_NONE : place_root(p, p->cell_of[value]);
}

static void mark_uses(struct place *p, const struct usage *uses, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        const struct usage *u = &uses[s];
        for (uint32_t k = 0; k < u->in_count + u->out_count; k++) {
            uint32_t c = cell_of(p, k < u->in_count ? u->in[k] : u->out[k - u->in_count]);
            if (c != CELL_NONE) {
                struct cell *cell = &p->cells[c];
                cell->first = cell->first < s ? cell->first : s;
                cell->last = s;
                cell->write = k >= u->in_count ? s : cell->write;
                cell->used = true;
            }
        }
    }
    for (uint32_t i = 0; i < p->cell_count; i++) {
        if (p->cells[i].storage == STORE_OUT) {
            p->cells[i].last = UINT32_MAX; /* read after the partition */
        }
    }
}

static void join_views(struct place *p, struct usage *uses, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        if (!uses[s].view) {
            continue;
        }
        uint32_t in = cell_of(p, uses[s].in[0]);
        uint32_t out = cell_of(p, uses[s].out[0]);
        bool both = p->cells[in].storage != STORE_ARENA && p->cells[out].storage != STORE_ARENA;
        if (!both && in != out) {
            sets_join(p, in, out);
            uses[s].aliased = true;
        }
    }
}

/* No other input of the step lies in the memory of input k. */
static bool read_once(struct place *p, const struct usage *u, uint32_t k)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < u->in_count; i++) {
        count += cell_of(p, u->in[i]) == cell_of(p, u->in[k]);
    }
    return count == 1;
}

/* An element-wise result takes the memory of an input that nobody reads later. */
static void join_inplace(struct place *p, const struct usage *uses, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        for (uint32_t k = 0; k < uses[s].in_count && k < 32; k++) {
            if ((uses[s].inplace >> k & 1) == 0 || (uses[s].exclusive && !read_once(p, &uses[s], k))) {
                continue;
            }
            uint32_t in = cell_of(p, uses[s].in[k]);
            uint32_t out = cell_of(p, uses[s].out[0]);
            if (in == CELL_NONE || in == out || p->cells[in].storage != STORE_ARENA || p->cells[in].last != s ||
                p->cells[out].first != s || p->cells[in].bytes != p->cells[out].bytes ||
                p->cells[out].storage == STORE_IN || p->cells[out].storage == STORE_CONST) {
                continue;
            }
            sets_join(p, in, out);
            break;
        }
    }
}

/* Has it a place of its own in the arena? */
static bool laid(const struct cell *c, uint32_t index)
{
    return c->parent == index && c->storage == STORE_ARENA && c->used && c->whole == CELL_NONE;
}

enum pen_status place_lay(struct place *p)
{
    struct lifetime *items = calloc((size_t)p->cell_count + 1, sizeof *items);
    if (items == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < p->cell_count; i++) {
        const struct cell *c = &p->cells[i];
        if (laid(c, i)) {
            items[count++] = (struct lifetime){.bytes = c->bytes, .first = c->first, .last = c->last};
        }
    }
    enum pen_status status = lifetime_plan(items, count, &p->arena_bytes);
    count = 0;
    for (uint32_t i = 0; i < p->cell_count && status == PEN_OK; i++) {
        struct cell *c = &p->cells[i];
        if (laid(c, i)) {
            c->offset = items[count++].offset;
            PEN_ASSERT(c->bytes <= p->arena_bytes && c->offset <= p->arena_bytes - c->bytes,
                       "a cell lies in the arena");
        }
    }
    free(items);
    return status;
}

void place_join(struct place *p, struct usage *uses, uint32_t count)
{
    mark_uses(p, uses, count);
    join_views(p, uses, count);
    join_inplace(p, uses, count);
}

void place_fini(struct place *p)
{
    free(p->cells);
    free(p->cell_of);
    *p = (struct place){0};
}
