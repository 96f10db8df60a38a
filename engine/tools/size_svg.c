#include "tools/size_svg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIDE  560.0 /* of the square that the largest map fills */
#define LABEL 26.0

struct box {
    double x, y, w, h;
};

static double bytes_of(const struct size_part *p)
{
    return (double)(p->code + p->other);
}

/* One colour for a part, the same in both maps: its top folder decides the hue, its name the lightness. */
static void colour(const char *name, char *text, size_t bytes)
{
    unsigned sum = 0, top = 0;
    for (const char *at = name; *at != '\0'; at++) {
        sum = sum * 31 + (unsigned char)*at;
    }
    for (const char *at = name; *at != '\0' && *at != '/'; at++) {
        top = top * 31 + (unsigned char)*at;
    }
    snprintf(text, bytes, "hsl(%u,45%%,%u%%)", top * 47 % 360, 62 + sum % 20);
}

static void part_draw(FILE *f, const struct size_part *p, const struct box *b)
{
    char fill[40];
    uint64_t bytes = p->code + p->other;
    const char *last = strrchr(p->name, '/');
    colour(p->name, fill, sizeof fill);
    fprintf(f, "<g><title>%s: %" PRIu64 " bytes</title><rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>",
            p->name, bytes, b->x, b->y, b->w, b->h, fill);
    if (b->w > 60.0 && b->h > 14.0) {
        fprintf(f, "<text x='%.1f' y='%.1f'>%s %" PRIu64 " K</text>", b->x + 3.0, b->y + 12.0,
                last != NULL ? last + 1 : p->name, bytes / 1024u);
    }
    fprintf(f, "</g>\n");
}

/* Squarified (Bruls, Huizing, van Wijk): how far from a square the worst of a row of `sum` is, laid along `side`. */
static double worst(double largest, double smallest, double sum, double side)
{
    double s = sum * sum, w = side * side;
    return fmax(w * largest / s, s / (w * smallest));
}

/* Parts [first, end) along the short side of what is left. */
static void row_draw(FILE *f, const struct size_map *m, size_t first, size_t end, double sum, double scale,
                     struct box *left)
{
    int upright = left->w >= left->h;
    double along = upright ? left->h : left->w, thick = sum * scale / along, at = 0.0;
    for (size_t i = first; i < end; i++) {
        double part = bytes_of(&m->parts[i]) * scale / thick;
        struct box b = upright ? (struct box){left->x, left->y + at, thick, part}
                               : (struct box){left->x + at, left->y, part, thick};
        part_draw(f, &m->parts[i], &b);
        at += part;
    }
    if (upright) {
        left->x += thick;
        left->w -= thick;
    } else {
        left->y += thick;
        left->h -= thick;
    }
}

static void map_draw(FILE *f, const struct size_map *m, double scale, double x)
{
    double side = sqrt((double)(m->code + m->other) * scale);
    struct box left = {x, LABEL, side, side};
    for (size_t first = 0; first < m->count;) {
        double along = fmin(left.w, left.h), sum = bytes_of(&m->parts[first]) * scale, most = sum;
        size_t end = first + 1;
        while (end < m->count) {
            double next = bytes_of(&m->parts[end]) * scale;
            double before = bytes_of(&m->parts[end - 1]) * scale;
            if (worst(most, next, sum + next, along) > worst(most, before, sum, along)) {
                break;
            }
            sum += next;
            end++;
        }
        row_draw(f, m, first, end, sum / scale, scale, &left);
        first = end;
    }
}

enum pen_status size_svg_write(const char *path, const struct size_map *before, const struct size_map *after,
                               struct pen_error *reterr)
{
    uint64_t a = after->code + after->other, b = before != NULL ? before->code + before->other : 0;
    double scale = SIDE * SIDE / (double)(a > b ? a : b);
    FILE *f = fopen(path, "we");
    if (f == NULL) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    double x = before != NULL ? sqrt((double)b * scale) + 20.0 : 0.0;
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-family='sans-serif' font-size='11' "
            "stroke='white' stroke-width='1'>\n<style>text{stroke:none;fill:#222}</style>\n",
            x + SIDE, SIDE + LABEL);
    if (before != NULL) {
        fprintf(f, "<text x='0' y='16'>before: %" PRIu64 " bytes</text>\n", b);
        map_draw(f, before, scale, 0.0);
    }
    fprintf(f, "<text x='%.0f' y='16'>%s%" PRIu64 " bytes</text>\n", x, before != NULL ? "after: " : "", a);
    map_draw(f, after, scale, x);
    fprintf(f, "</svg>\n");
    return fclose(f) == 0 ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}
