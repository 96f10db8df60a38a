#include "matrix.h"

#include <math.h>
#include <stdlib.h>

struct matrix matrix_of(const struct answer_view *view, bool channels_first)
{
    size_t count = view->count;
    if (view->rank < 2 || count == 0)
        return (struct matrix){.data = view->data, .rows = count, .columns = 1, .row_step = 1, .column_step = 1};
    if (!channels_first) {
        size_t columns = (size_t)view->dims[view->rank - 1];
        return (struct matrix){
            .data = view->data, .rows = count / columns, .columns = columns, .row_step = columns, .column_step = 1};
    }
    uint32_t d = 0;
    while (d + 1 < view->rank && view->dims[d] == 1)
        d++;
    size_t columns = (size_t)view->dims[d], rows = count / columns;
    return (struct matrix){.data = view->data, .rows = rows, .columns = columns, .row_step = 1, .column_step = rows};
}

/* ---- candidates ---- */

static bool worse(const struct candidate *a, const struct candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->place > b->place);
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate kept = *a;
    *a = *b;
    *b = kept;
}

enum pen_status candidates_open(struct answer_row *row, size_t room, struct candidates *ret_list,
                                struct pen_error *reterr)
{
    *ret_list = (struct candidates){.room = room};
    ret_list->list = row_take(row, room, sizeof *ret_list->list, reterr);
    return ret_list->list ? PEN_OK : row_short(row);
}

static void sink(struct candidates *c)
{
    for (size_t at = 0, least;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < c->count; child++)
            if (worse(&c->list[child], &c->list[least]))
                least = child;
        if (least == at)
            return;
        swap(&c->list[at], &c->list[least]);
    }
}

void candidates_offer(struct candidates *c, struct candidate one)
{
    if (isnan(one.score))
        return;
    if (c->count == c->room) {
        if (!worse(&c->list[0], &one))
            return;
        c->list[0] = one;
        sink(c);
        return;
    }
    size_t at = c->count++;
    c->list[at] = one;
    for (; at > 0 && worse(&c->list[at], &c->list[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&c->list[at], &c->list[(at - 1) / 2]);
}

static int compare(const void *a, const void *b)
{
    return worse(a, b) ? 1 : worse(b, a) ? -1 : 0;
}

void candidates_sort(struct candidates *c)
{
    qsort(c->list, c->count, sizeof *c->list, compare);
}

enum pen_status candidates_objects(const struct candidates *c, struct answer_row *row, uint32_t points_count,
                                   struct pen_error *reterr)
{
    size_t values = (size_t)points_count * ANSWER_POINT_VALUES;
    row->objects = row_take(row, c->count, sizeof *row->objects, reterr);
    float *points = values && row->objects ? row_take(row, c->count * values, sizeof *points, reterr) : NULL;
    if (!row->objects || (values && !points))
        return row_short(row);
    row->objects_count = c->count;
    for (size_t i = 0; i < c->count; i++)
        row->objects[i] = (struct answer_object){
            .score = c->list[i].score, .class = c->list[i].class, .points = points ? points + i * values : NULL};
    return PEN_OK;
}

static int object_compare(const void *a, const void *b)
{
    const struct answer_object *x = a, *y = b;
    return x->score < y->score ? 1 : x->score > y->score ? -1 : 0;
}

/* qsort of glibc may not be stable: insertion where the list is short, else by place. */
void objects_sort(struct answer_row *row, size_t most)
{
    struct answer_object *objects = row->objects;
    for (size_t i = 1; i < row->objects_count; i++) {
        struct answer_object one = objects[i];
        size_t at = i;
        for (; at > 0 && object_compare(&objects[at - 1], &one) > 0; at--)
            objects[at] = objects[at - 1];
        objects[at] = one;
    }
    if (row->objects_count > most)
        row->objects_count = most;
}
