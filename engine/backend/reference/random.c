#include "backend/reference/random.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/reference/kernels.h"

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next(struct random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

#define FRACTION 0x1p-32

/* Stirs the characters of a text into *n, which stays below 2^33; gives a fraction of it. */
static double alea_stir(double *n, const char *text)
{
    for (; *text != '\0'; text++) {
        double whole, rest = modf(0.02519603282416938 * (*n + (double)*text), &whole);
        rest = modf(rest * whole, n);
        *n += rest * 0x1p32;
    }
    return floor(fmod(*n, 0x1p32)) * FRACTION;
}

static void alea_init(struct random *r, int64_t seed)
{
    double n = 4022871197.0; /* 0xefc8249d */
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)seed);
    r->alea = true;
    r->carry = 1.0;
    for (int i = 0; i < 3; i++) {
        r->part[i] = alea_stir(&n, " ");
    }
    for (int i = 0; i < 3; i++) {
        r->part[i] -= alea_stir(&n, digits);
        r->part[i] += r->part[i] < 0.0 ? 1.0 : 0.0;
    }
}

static double alea_next(struct random *r)
{
    double t = 2091639.0 * r->part[0] + r->carry * FRACTION;
    r->part[0] = r->part[1];
    r->part[1] = r->part[2];
    r->part[2] = modf(t, &r->carry);
    return r->part[2];
}

void random_init(struct random *r, const struct node *n)
{
    int64_t chosen = node_int(n, ATTR_alea, 0);
    bool cut = node_int(n, ATTR_truncated, 0) != 0;
    *r = (struct random){.low = cut ? -2.0 : -(double)INFINITY, .high = cut ? 2.0 : (double)INFINITY, .next = NAN};
    if (chosen != 0) {
        alea_init(r, chosen);
        return;
    }
    static atomic_ullong turn;
    const struct attr *seed = node_attr(n, ATTR_seed);
    struct timespec now = {0, 0};
    if (seed != NULL && seed->type == ATTR_FLOAT) {
        uint32_t bits = 0;
        memcpy(&bits, &seed->f, sizeof bits);
        r->state = bits;
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    r->state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ atomic_fetch_add(&turn, 0x632BE59BD9B4E019u);
}

double random_uniform(struct random *r)
{
    return r->alea ? alea_next(r) : (double)(next(r) >> 11) * 0x1p-53;
}

/* Two normal numbers from a point inside the unit circle; the first is given, the second kept, each where it lies within the limits. */
static double polar(struct random *r)
{
    double given = r->next;
    r->next = NAN;
    while (isnan(given)) {
        double u, v, s;
        do {
            u = 2.0 * random_uniform(r) - 1.0;
            v = 2.0 * random_uniform(r) - 1.0;
            s = u * u + v * v;
        } while (s >= 1.0 || s == 0.0);
        double by = sqrt(-2.0 * log(s) / s);
        if (u * by >= r->low && u * by <= r->high) {
            given = u * by;
            r->next = v * by >= r->low && v * by <= r->high ? v * by : NAN;
        }
    }
    return given;
}

/* Box and Muller: sqrt(-2 ln u) cos(2 pi v); the polar method for Alea and for numbers with limits. */
double random_normal(struct random *r)
{
    if (r->alea || isfinite(r->high)) {
        return polar(r);
    }
    double u = 1.0 - random_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * random_uniform(r));
}

void random_fill(const struct node *n, void *y, enum pen_dtype dtype, int64_t count)
{
    bool normal = n->op == OP_RandomNormal || n->op == OP_RandomNormalLike;
    double a = (double)node_float(n, normal ? ATTR_mean : ATTR_low, 0.0f);
    double b = (double)node_float(n, normal ? ATTR_scale : ATTR_high, 1.0f);
    struct random r;
    random_init(&r, n);
    for (int64_t i = 0; i < count; i++) {
        store_one_f64(y, dtype, i, normal ? a + b * random_normal(&r) : a + (b - a) * random_uniform(&r));
    }
}

/* RandomUniform, RandomNormal and their Like forms. */
enum pen_status kernel_random(struct kernel_call *k)
{
    bool like = k->n->in_count > 0;
    struct shape shape = {.rank = 0};
    uint32_t count = 0;
    const int64_t *dims = node_ints(k->n, ATTR_shape, &count);
    if (!like && (dims == NULL || count > PEN_MAX_RANK)) {
        return kernel_fail(k, PEN_ERR_INVALID, "shape has %u items", count);
    }
    shape = like ? k->in[0].shape : shape_of((int32_t)count, dims);
    enum pen_dtype def = like && element_class(k->in[0].dtype) == ELEMENT_FLOAT ? k->in[0].dtype : PEN_DTYPE_F32;
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, def);
    enum pen_status status = kernel_output(k, 0, dtype, &shape);
    if (status == PEN_OK) {
        random_fill(k->n, k->out[0].data, dtype, shape_elements(&shape));
    }
    return status;
}

/* Bernoulli: 1 with probability x. */
enum pen_status kernel_bernoulli(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, x->dtype);
    struct random r;
    enum pen_status status = kernel_output(k, 0, dtype, &x->shape);
    random_init(&r, k->n);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        store_one_f64(k->out[0].data, dtype, i, random_uniform(&r) < load_one_f64(x->data, x->dtype, i) ? 1.0 : 0.0);
    }
    return status;
}

/* As TensorFlow.js draws them: each row begins with the seed, and sums of probabilities are single precision. */
static void draw_alea(const struct node *n, const double *p, const struct random_rows *rows, int64_t at)
{
    double most = -(double)INFINITY;
    float sum = 0.0f;
    struct random r;
    random_init(&r, n);
    for (int64_t c = 0; c < rows->classes; c++) {
        most = p[c] > most ? p[c] : most;
    }
    for (int64_t c = 0; c < rows->classes; c++) {
        sum += (float)exp(p[c] - most);
    }
    for (int64_t i = 0; i < rows->draws; i++) {
        double drawn = random_uniform(&r);
        float reached = 0.0f;
        int64_t c = 0;
        for (; c + 1 < rows->classes; c++) {
            reached += (float)exp(p[c] - most) / sum;
            if (drawn < (double)reached) {
                break;
            }
        }
        store_one_i64(rows->y, rows->y_dtype, at + i, c);
    }
}

void random_draw(const struct node *n, const struct random_rows *rows, double *p)
{
    struct random r;
    random_init(&r, n);
    for (int64_t row = 0; row < rows->count; row++) {
        double sum = 0.0;
        load_f64(rows->x, rows->x_dtype, row * rows->classes, 1, rows->classes, p);
        if (r.alea) {
            draw_alea(n, p, rows, row * rows->draws);
            continue;
        }
        for (int64_t c = 0; c < rows->classes; c++) {
            sum += p[c] = exp(p[c]);
        }
        for (int64_t i = 0; i < rows->draws; i++) {
            double left = random_uniform(&r) * sum;
            int64_t c = 0;
            while (c + 1 < rows->classes && left >= p[c]) {
                left -= p[c++];
            }
            store_one_i64(rows->y, rows->y_dtype, row * rows->draws + i, c);
        }
    }
}

/* Multinomial: sample_size draws per row of unnormalised log-probabilities. */
enum pen_status kernel_multinomial(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct random_rows rows = {.draws = node_int(k->n, ATTR_sample_size, 1), .x = x->data, .x_dtype = x->dtype};
    if (x->shape.rank != 2 || rows.draws < 0 || x->shape.dim[1] < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs rows of probabilities");
    }
    rows.count = x->shape.dim[0];
    rows.classes = x->shape.dim[1];
    rows.y_dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, PEN_DTYPE_I32);
    struct shape out = shape_of(2, (const int64_t[]){rows.count, rows.draws});
    enum pen_status status = kernel_output(k, 0, rows.y_dtype, &out);
    double *p = kernel_scratch(k, (size_t)rows.classes * sizeof *p);
    if (status == PEN_OK && p == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld classes", (long long)rows.classes);
    }
    rows.y = k->out[0].data;
    if (status == PEN_OK) {
        random_draw(k->n, &rows, p);
    }
    return status;
}
