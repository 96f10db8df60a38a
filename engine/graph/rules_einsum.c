#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"

/* Letters of an equation with the sizes seen so far; "..." stands for up to PEN_MAX_RANK axes. */
struct einsum {
    const char *at, *end;
    int64_t size[128];
    uint8_t uses[128];
    struct shape dots; /* broadcast of what the ellipses cover; rank -1 until seen */
};

static bool letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

/* One term up to a comma, an arrow or the end. */
static size_t term_letters(const struct einsum *e, bool *ret_dots)
{
    size_t count = 0;
    *ret_dots = false;
    for (const char *p = e->at; p < e->end && *p != ',' && *p != '-'; p++) {
        count += letter(*p);
        *ret_dots |= *p == '.';
    }
    return count;
}

static bool take_dots(struct einsum *e, const struct shape *x, int32_t first, int32_t covered)
{
    struct shape part = shape_of(covered, x->dim + first), wider;
    if (e->dots.rank < 0) {
        e->dots = part;
        return true;
    }
    if (!shape_broadcast(&e->dots, &part, &wider))
        return false;
    e->dots = wider;
    return true;
}

static bool take_letter(struct einsum *e, char ch, int64_t dim)
{
    int64_t *size = &e->size[(unsigned char)ch];
    e->uses[(unsigned char)ch]++;
    if (*size < 0 || *size == 1)
        *size = dim < 0 && *size == 1 ? dim : dim >= 0 ? dim : *size;
    return dim < 0 || dim == 1 || *size == dim;
}

/* Lays a term over an input's shape. */
static bool read_term(struct einsum *e, const struct shape *x)
{
    bool dots;
    size_t letters = term_letters(e, &dots);
    int32_t axis = 0, covered = x->rank - (int32_t)letters;
    if (x->rank >= 0 && (covered < 0 || (covered > 0 && !dots)))
        return false;
    for (; e->at < e->end && *e->at != ',' && *e->at != '-'; e->at++) {
        if (*e->at == ' ')
            continue;
        if (*e->at == '.') {
            if (e->end - e->at < 3 || e->at[1] != '.' || e->at[2] != '.' ||
                (x->rank >= 0 && !take_dots(e, x, axis, covered)))
                return false;
            e->at += 2;
            axis += covered;
        } else if (!letter(*e->at) || !take_letter(e, *e->at, x->rank >= 0 ? x->dim[axis] : SHAPE_DIM_UNKNOWN)) {
            return false;
        } else {
            axis++;
        }
    }
    return true;
}

static bool put_dim(struct shape *y, int64_t dim)
{
    if (y->rank >= PEN_MAX_RANK)
        return false;
    y->dim[y->rank++] = dim;
    return true;
}

static bool put_dots(const struct einsum *e, struct shape *y)
{
    for (int32_t i = 0; i < e->dots.rank; i++) {
        if (!put_dim(y, e->dots.dim[i]))
            return false;
    }
    return true;
}

/* What follows the arrow; without one, the ellipsis and then letters used once, in order. */
static bool output_shape(struct einsum *e, struct shape *y)
{
    *y = shape_scalar();
    if (e->end - e->at < 2) {
        if (!put_dots(e, y))
            return false;
        for (unsigned ch = 0; ch < 128; ch++) {
            if (letter((char)ch) && e->uses[ch] == 1 && !put_dim(y, e->size[ch]))
                return false;
        }
        return true;
    }
    for (e->at += 2; e->at < e->end; e->at++) {
        if (*e->at == ' ')
            continue;
        if (*e->at == '.') {
            if (e->end - e->at < 3 || !put_dots(e, y))
                return false;
            e->at += 2;
        } else if (!letter(*e->at) || !put_dim(y, e->size[(unsigned char)*e->at])) {
            return false;
        }
    }
    return true;
}

enum pen_status infer_einsum(struct infer *c, struct pen_error *reterr)
{
    const struct attr *a = node_attr(c->n, ATTR_equation);
    struct einsum e = {.dots = shape_unknown()};
    struct shape y;
    bool ok = a && a->type == ATTR_TEXT, ranks = true;
    if (ok) {
        e.at = a->text.text;
        e.end = a->text.text + a->text.bytes;
    }
    for (unsigned ch = 0; ch < 128; ch++)
        e.size[ch] = SHAPE_DIM_UNKNOWN;
    for (uint32_t i = 0; i < c->n->in_count && ok; i++) {
        ranks &= infer_rank(c, i) >= 0;
        ok = read_term(&e, infer_shape_of(c, i));
        if (i + 1 < c->n->in_count)
            ok = ok && e.at < e.end && *e.at++ == ',';
    }
    ok = ok && (e.at == e.end || (e.end - e.at >= 2 && e.at[0] == '-' && e.at[1] == '>')) && output_shape(&e, &y);
    if (!ok)
        return infer_fail(c, reterr, "the equation does not fit the inputs");
    if (!ranks)
        y = shape_unknown();
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}
