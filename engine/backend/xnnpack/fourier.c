#include "backend/xnnpack/fourier.h"

#include <math.h>

#define PI 3.14159265358979323846

void fourier_init(struct fourier *f, size_t n, double *table)
{
    *f = (struct fourier){.n = n, .turn = table};
    for (size_t left = n, p = 2; left > 1; p++) {
        p = p * p > left ? left : p; /* what is left is prime */
        for (; left % p == 0; left /= p) {
            f->factors[f->count++] = p;
        }
    }
    for (size_t t = 0; t < n; t++) {
        double angle = -2.0 * PI * (double)t / (double)n;
        table[2 * t] = cos(angle);
        table[2 * t + 1] = sin(angle);
    }
}

/* Stockham's step: n / stride points are r interleaved rows of m; each row's point p goes to r places, turned by p times the place. */
struct stage {
    const struct fourier *f;
    size_t r, m, stride;
    double sign;
};

static void add_turned(const struct stage *s, const double *x, size_t turn, double *re, double *im)
{
    double c = s->f->turn[2 * turn], d = s->sign * s->f->turn[2 * turn + 1];
    *re += x[0] * c - x[1] * d;
    *im += x[0] * d + x[1] * c;
}

/* Two rows: the usual case, without the turns that are 1 and -1. */
static void pair_of(const struct stage *s, const double *x, double *y, size_t p)
{
    const double *a = x + 2 * s->stride * p, *b = x + 2 * s->stride * (p + s->m);
    double *sum = y + 4 * s->stride * p, *rest = sum + 2 * s->stride;
    double c = s->f->turn[2 * p * s->stride], d = s->sign * s->f->turn[2 * p * s->stride + 1];
    for (size_t q = 0; q < 2 * s->stride; q += 2) {
        double re = a[q] - b[q], im = a[q + 1] - b[q + 1];
        sum[q] = a[q] + b[q];
        sum[q + 1] = a[q + 1] + b[q + 1];
        rest[q] = re * c - im * d;
        rest[q + 1] = re * d + im * c;
    }
}

static void point_of(const struct stage *s, const double *x, double *y, size_t p)
{
    size_t n = s->f->n, unit = n / s->r;
    for (size_t q = 0; q < s->stride; q++) {
        for (size_t k = 0; k < s->r; k++) {
            double sum[2] = {0.0, 0.0}, *to = y + 2 * (q + s->stride * (s->r * p + k));
            for (size_t i = 0; i < s->r; i++) {
                add_turned(s, x + 2 * (q + s->stride * (p + s->m * i)), i * k % s->r * unit, &sum[0], &sum[1]);
            }
            to[0] = to[1] = 0.0;
            add_turned(s, sum, p * k * s->stride % n, &to[0], &to[1]);
        }
    }
}

const double *fourier_run(const struct fourier *f, double *data, bool inverse)
{
    double *x = data, *y = data + 2 * f->n;
    size_t stride = 1;
    for (size_t i = 0; i < f->count; i++) {
        size_t r = f->factors[i];
        struct stage s = {f, r, f->n / stride / r, stride, inverse ? -1.0 : 1.0};
        for (size_t p = 0; p < s.m; p++) {
            if (r == 2) {
                pair_of(&s, x, y, p);
            } else {
                point_of(&s, x, y, p);
            }
        }
        double *swap = x;
        x = y;
        y = swap;
        stride *= r;
    }
    for (size_t i = 0; inverse && i < 2 * f->n; i++) {
        x[i] /= (double)f->n;
    }
    return x;
}
