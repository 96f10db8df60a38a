/*
 * turned.c - boxes that are turned around their middle, as detectors of aerial pictures and of text give them.
 *
 * The shared area of two is a convex polygon: one rectangle, cut by each side of the other (Sutherland and Hodgman 1974), and measured by the shoelace formula.
 */
#include "parts.h"

#include <math.h>

#define SIDES_MAX 16 /* a rectangle cut by four lines has 8 corners at most; rounding may add some */

struct polygon {
    double x[SIDES_MAX], y[SIDES_MAX];
    int count;
};

/* In double, and from the middle on: shared areas are small differences. */
static struct polygon polygon_of(const struct answer_object *object)
{
    static const int sides[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    const float *box = object->box;
    double x = ((double)box[0] + (double)box[2]) / 2, y = ((double)box[1] + (double)box[3]) / 2;
    double w = ((double)box[2] - (double)box[0]) / 2, h = ((double)box[3] - (double)box[1]) / 2;
    double c = cos((double)object->angle), s = sin((double)object->angle);
    struct polygon p = {.count = 4};
    for (int i = 0; i < 4; i++) {
        p.x[i] = x + sides[i][0] * w * c - sides[i][1] * h * s;
        p.y[i] = y + sides[i][0] * w * s + sides[i][1] * h * c;
    }
    return p;
}

void turned_corners(const struct answer_object *object, float ret_corners[8])
{
    struct polygon p = polygon_of(object);
    for (int i = 0; i < 4; i++) {
        ret_corners[2 * i] = (float)p.x[i];
        ret_corners[2 * i + 1] = (float)p.y[i];
    }
}

static double area(const struct polygon *p)
{
    double twice = 0;
    for (int i = 0; i < p->count; i++) {
        int next = (i + 1) % p->count;
        twice += p->x[i] * p->y[next] - p->x[next] * p->y[i];
    }
    return fabs(twice) / 2;
}

static void corner_add(struct polygon *p, double x, double y)
{
    if (p->count == SIDES_MAX)
        return;
    p->x[p->count] = x;
    p->y[p->count++] = y;
}

/* What of `p` lies on the inner side of the line from corner `i` of `by` to the next one. */
static struct polygon cut(const struct polygon *p, const struct polygon *by, int i)
{
    int j = (i + 1) % by->count;
    double dx = by->x[j] - by->x[i], dy = by->y[j] - by->y[i];
    struct polygon kept = {.count = 0};
    for (int k = 0; k < p->count; k++) {
        int next = (k + 1) % p->count;
        double here = dx * (p->y[k] - by->y[i]) - dy * (p->x[k] - by->x[i]);
        double there = dx * (p->y[next] - by->y[i]) - dy * (p->x[next] - by->x[i]);
        if (here >= 0)
            corner_add(&kept, p->x[k], p->y[k]);
        if ((here < 0) != (there < 0)) {
            double part = here / (here - there);
            corner_add(&kept, p->x[k] + part * (p->x[next] - p->x[k]), p->y[k] + part * (p->y[next] - p->y[k]));
        }
    }
    return kept;
}

float turned_overlap(const struct answer_object *a, const struct answer_object *b)
{
    struct polygon one = polygon_of(a), two = polygon_of(b), shared = one;
    bool upright = a->box[2] > a->box[0] && a->box[3] > a->box[1] && b->box[2] > b->box[0] && b->box[3] > b->box[1];
    for (int i = 0; upright && i < 4 && shared.count > 0; i++)
        shared = cut(&shared, &two, i);
    double common = upright && shared.count > 2 ? area(&shared) : 0;
    return (float)(common / (area(&one) + area(&two) - common));
}
