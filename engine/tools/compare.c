#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "tools/case.h"

static bool fail(struct comparison *c, const char *name, const char *what)
{
    snprintf(c->reason, sizeof c->reason, "output %s: %s", name, what);
    return false;
}

static bool shapes_fit(const struct rt_value *got, const struct rt_value *expected, const char *name,
                       struct comparison *c)
{
    char a[64];
    char b[64];
    if (got->dtype != expected->dtype) {
        snprintf(c->reason, sizeof c->reason, "output %s: dtype %s, expected %s", name, pen_dtype_name(got->dtype),
                 pen_dtype_name(expected->dtype));
        return false;
    }
    if (!shape_equal(&got->shape, &expected->shape)) {
        snprintf(c->reason, sizeof c->reason, "output %s: shape %s, expected %s", name,
                 shape_text(&got->shape, a, sizeof a), shape_text(&expected->shape, b, sizeof b));
        return false;
    }
    return true;
}

static bool compare_strings(const struct rt_value *got, const struct rt_value *expected, const char *name,
                            struct comparison *c)
{
    const struct string_view *a = got->data;
    const struct string_view *b = expected->data;
    for (int64_t i = 0; i < shape_elements(&expected->shape); i++) {
        if (a[i].bytes != b[i].bytes || (a[i].bytes > 0 && memcmp(a[i].text, b[i].text, a[i].bytes) != 0)) {
            snprintf(c->reason, sizeof c->reason, "output %s: string %" PRId64 " is '%.*s', expected '%.*s'", name, i,
                     (int)(a[i].bytes > 40 ? 40 : a[i].bytes), a[i].text, (int)(b[i].bytes > 40 ? 40 : b[i].bytes),
                     b[i].text);
            return false;
        }
    }
    return true;
}

/* Running figures of one tensor. */
struct figures {
    double error_square, expected_square, low, high, best_got, best_expected;
    int64_t top_got, top_expected;
};

static void figures_add(struct figures *f, int64_t i, double got, double want)
{
    f->error_square += (got - want) * (got - want);
    f->expected_square += want * want;
    f->low = i == 0 || want < f->low ? want : f->low;
    f->high = i == 0 || want > f->high ? want : f->high;
    if (i == 0 || got > f->best_got) {
        f->best_got = got;
        f->top_got = i;
    }
    if (i == 0 || want > f->best_expected) {
        f->best_expected = want;
        f->top_expected = i;
    }
}

static bool is_integer(enum pen_dtype dtype)
{
    return (element_class(dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) == 0;
}

/* One element: NaN only fits NaN, an infinity only itself. Counts the figures; remembers the worst. */
static bool element_fits(double got, double want, double bound, struct comparison *c)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want);
    }
    if (isinf(got) || isinf(want)) {
        return got == want;
    }
    double d = fabs(got - want);
    c->max_abs = d > c->max_abs ? d : c->max_abs;
    double rel = want != 0 ? d / fabs(want) : 0;
    c->max_rel = rel > c->max_rel ? rel : c->max_rel;
    return d <= bound;
}

static double range_of(const struct rt_value *v, int64_t count)
{
    struct figures f = {0};
    for (int64_t i = 0; i < count; i++) {
        double want = load_one_f64(v->data, v->dtype, i);
        if (isfinite(want)) {
            figures_add(&f, i, want, want);
        }
    }
    double range = f.high - f.low;
    double largest = fmax(fabs(f.high), fabs(f.low));
    return range > 0 ? range : largest;
}

bool compare_fine(const struct rt_value *expected, double step)
{
    return step * 1024 < range_of(expected, shape_elements(&expected->shape));
}

/* What one unit in the last place of a 16-bit output is to its value: both sides have been rounded to it. */
static double one_unit(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F16 ? 0x1p-10 : dtype == PEN_DTYPE_BF16 ? 0x1p-7 : 0;
}

/* What bounds one tensor, and in words. */
struct limits {
    bool integer;
    double fixed, relative; /* |d| <= fixed + relative |expected| */
    double nmse;            /* 0 = not checked */
    char words[96];
};

#define STEP_SLACK                                                                                                     \
    2e-3 /* a step of 16-bit integers is 2^-16 of the range: two such floats are rounded by up to 2^-10 of it */

static struct limits limits_of(const struct rt_value *expected, const struct tolerance *t, double noise, double step)
{
    struct limits l = {.integer = is_integer(expected->dtype)};
    double unit = one_unit(expected->dtype), share = fmax(t->rtol, 3 * noise);
    double range = l.integer ? 0 : range_of(expected, shape_elements(&expected->shape));
    double steps = t->lsb * step * (1 + STEP_SLACK); /* whole ones, as rounded floats */
    if (step > 0 && 3 * noise * range > steps) {
        l.fixed = 3 * noise * range;
        snprintf(l.words, sizeof l.words, "%.3g of the range %.3g, more than %g steps", 3 * noise, range, t->lsb);
    } else if (l.integer || step > 0) {
        l.fixed = l.integer ? t->lsb : steps;
        l.relative = l.integer ? 0 : t->rtol;
        snprintf(l.words, sizeof l.words, "%g step%s", t->lsb, t->lsb == 1 ? "" : "s");
    } else if (t->by_range && range > 0) {
        l.fixed = share * range;
        l.relative = unit;
        snprintf(l.words, sizeof l.words, "%.3g of the range %.3g", share, range);
    } else if (t->by_range) { /* nothing but zeros: a share of them says nothing */
        l.fixed = t->atol;
        snprintf(l.words, sizeof l.words, "all that is expected is 0");
    } else {
        l.fixed = t->atol + 3 * noise * range;
        l.relative = fmax(t->rtol, unit);
        snprintf(l.words, sizeof l.words, "%.3g and %.3g of it", l.fixed, l.relative);
    }
    l.nmse = t->by_range && !l.integer && t->nmse > 0 ? fmax(fmax(t->nmse, 9 * noise * noise), unit * unit) : 0;
    return l;
}

/* Every element; the figures of all, the reason of the first that does not fit. */
static bool elements_fit(const struct rt_value *got, const struct rt_value *expected, const struct limits *l,
                         const char *name, struct figures *f, struct comparison *c)
{
    bool fits = true;
    for (int64_t i = 0; i < shape_elements(&expected->shape); i++) {
        double a = load_one_f64(got->data, got->dtype, i);
        double b = load_one_f64(expected->data, expected->dtype, i);
        double bound = l->fixed + l->relative * fabs(b);
        bool exact = l->integer && bound <= 0; /* a double cannot tell all 64-bit integers apart */
        bool here = element_fits(a, b, bound, c) && (!exact || load_one_i64(got->data, got->dtype, i) ==
                                                                   load_one_i64(expected->data, expected->dtype, i));
        if (!here && fits) {
            snprintf(c->reason, sizeof c->reason,
                     "output %s: element %" PRId64 " is %.9g, expected %.9g (bound %.3g: %s)", name, i, a, b, bound,
                     l->words);
            c->numeric = !l->integer && isfinite(a) && isfinite(b);
            fits = false;
        }
        figures_add(f, i, a, b);
    }
    return fits;
}

static bool compare_numbers(const struct rt_value *got, const struct rt_value *expected, const struct tolerance *t,
                            double noise, double step, const char *name, struct comparison *c)
{
    struct figures f = {0};
    struct limits l = limits_of(expected, t, noise, step);
    if (!elements_fit(got, expected, &l, name, &f, c)) {
        return false;
    }
    double nmse = f.expected_square > 0 ? f.error_square / f.expected_square : 0;
    if (l.nmse > 0 && nmse > l.nmse) {
        snprintf(c->reason, sizeof c->reason, "output %s: normalised mean square error %.3g is over %.3g", name, nmse,
                 l.nmse);
        c->numeric = true;
        return false;
    }
    if (t->top1 && shape_elements(&expected->shape) > 1 && f.top_got != f.top_expected &&
        f.best_expected != load_one_f64(expected->data, expected->dtype, f.top_got)) {
        snprintf(c->reason, sizeof c->reason, "output %s: largest at %" PRId64 ", expected %" PRId64, name, f.top_got,
                 f.top_expected);
        return false;
    }
    return true;
}

bool compare_value(const struct rt_value *got, const struct rt_value *expected, const struct tolerance *tolerance,
                   double noise, double step, const char *name, struct comparison *c)
{
    c->numeric = false;
    if (got->kind != expected->kind) {
        return fail(c, name, "is of another kind (tensor, sequence or optional)");
    }
    if (got->kind != VALUE_TENSOR) {
        if (got->item_count != expected->item_count) {
            return fail(c, name, "has another number of items");
        }
        for (uint32_t i = 0; i < expected->item_count; i++) {
            if (!compare_value(&got->items[i], &expected->items[i], tolerance, noise, step, name, c)) {
                return false;
            }
        }
        return true;
    }
    if (!shapes_fit(got, expected, name, c)) {
        return false;
    }
    if (expected->dtype == PEN_DTYPE_STRING) {
        return compare_strings(got, expected, name, c);
    }
    return compare_numbers(got, expected, tolerance, noise, step, name, c);
}
