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

/* RandomUniform, RandomNormal and their Like forms. */
enum pen_status kernel_random(struct kernel_call *k)
{
    bool like = k->n->in_count > 0, normal = k->n->op == OP_RandomNormal || k->n->op == OP_RandomNormalLike;
    struct shape shape = {.rank = 0};
    uint32_t count = 0;
    const int64_t *dims = node_ints(k->n, ATTR_shape, &count);
    double a = (double)node_float(k->n, normal ? ATTR_mean : ATTR_low, 0.0f);
    double b = (double)node_float(k->n, normal ? ATTR_scale : ATTR_high, 1.0f);
    struct random r;
    if (!like && (dims == NULL || count > PEN_MAX_RANK)) {
        return kernel_fail(k, PEN_ERR_INVALID, "shape has %u items", count);
    }
    shape = like ? k->in[0].shape : shape_of((int32_t)count, dims);
    enum pen_dtype def = like && element_class(k->in[0].dtype) == ELEMENT_FLOAT ? k->in[0].dtype : PEN_DTYPE_F32;
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, def);
    enum pen_status status = kernel_output(k, 0, dtype, &shape);
    random_init(&r, k->n);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&shape); i++) {
        store_one_f64(k->out[0].data, dtype, i, normal ? a + b * random_normal(&r) : a + (b - a) * random_uniform(&r));
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
static void draw_alea(struct kernel_call *k, const double *p, int64_t classes, enum pen_dtype dtype, int64_t at,
                      int64_t draws)
{
    double most = -(double)INFINITY;
    float sum = 0.0f;
    struct random r;
    random_init(&r, k->n);
    for (int64_t c = 0; c < classes; c++) {
        most = p[c] > most ? p[c] : most;
    }
    for (int64_t c = 0; c < classes; c++) {
        sum += (float)exp(p[c] - most);
    }
    for (int64_t i = 0; i < draws; i++) {
        double drawn = random_uniform(&r);
        float reached = 0.0f;
        int64_t c = 0;
        for (; c + 1 < classes; c++) {
            reached += (float)exp(p[c] - most) / sum;
            if (drawn < (double)reached) {
                break;
            }
        }
        store_one_i64(k->out[0].data, dtype, at + i, c);
    }
}

/* Multinomial: sample_size draws per row of unnormalised log-probabilities. */
enum pen_status kernel_multinomial(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t draws = node_int(k->n, ATTR_sample_size, 1);
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, PEN_DTYPE_I32);
    struct random r;
    if (x->shape.rank != 2 || draws < 0 || x->shape.dim[1] < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs rows of probabilities");
    }
    int64_t classes = x->shape.dim[1];
    struct shape out = shape_of(2, (const int64_t[]){x->shape.dim[0], draws});
    enum pen_status status = kernel_output(k, 0, dtype, &out);
    double *p = kernel_scratch(k, (size_t)classes * sizeof *p);
    if (status == PEN_OK && p == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld classes", (long long)classes);
    }
    random_init(&r, k->n);
    for (int64_t row = 0; status == PEN_OK && row < x->shape.dim[0]; row++) {
        double sum = 0.0;
        load_f64(x->data, x->dtype, row * classes, 1, classes, p);
        if (r.alea) {
            draw_alea(k, p, classes, dtype, row * draws, draws);
            continue;
        }
        for (int64_t c = 0; c < classes; c++) {
            sum += p[c] = exp(p[c]);
        }
        for (int64_t i = 0; i < draws; i++) {
            double left = random_uniform(&r) * sum;
            int64_t c = 0;
            while (c + 1 < classes && left >= p[c]) {
                left -= p[c++];
            }
            store_one_i64(k->out[0].data, dtype, row * draws + i, c);
        }
    }
    return status;
}
