/* Element-wise operators of two or more inputs with NumPy broadcasting. Formulas: ONNX operator reference. */
#include "backend/reference/broadcast.h"

#include <math.h>
#include <string.h>

#include "backend/reference/activation.h"

/* y[i] = f(a[i], b[i]) over one block; the integer forms take unsigned 64-bit values as bit patterns. */
typedef void (*block_f64)(const double *a, const double *b, double *y, int64_t n);
typedef void (*block_i64)(const int64_t *a, const int64_t *b, int64_t *y, int64_t n);

#define BINARY_F64(name, formula)                                                                                      \
    static void name(const double *pa, const double *pb, double *y, int64_t n)                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = pa[i], b = pb[i];                                                                               \
            y[i] = formula;                                                                                            \
        }                                                                                                              \
    }
#define BINARY_I64(name, formula)                                                                                      \
    static void name(const int64_t *pa, const int64_t *pb, int64_t *y, int64_t n)                                      \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t a = pa[i], b = pb[i];                                                                              \
            uint64_t ua = (uint64_t)a, ub = (uint64_t)b;                                                               \
            (void)ua, (void)ub, (void)a, (void)b;                                                                      \
            y[i] = (int64_t)(formula);                                                                                 \
        }                                                                                                              \
    }

/* Remainder with the divisor's sign (fmod = 0). */
static double mod_floor(double a, double b)
{
    double r = fmod(a, b);
    return r == 0.0 ? copysign(r, b) : (r < 0.0) != (b < 0.0) ? r + b : r;
}

static int64_t div_i64(int64_t a, int64_t b) /* b != 0; INT64_MIN / -1 wraps */
{
    return b == -1 ? (int64_t)(0u - (uint64_t)a) : a / b;
}

static int64_t rem_i64(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static int64_t mod_i64(int64_t a, int64_t b)
{
    int64_t r = rem_i64(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t pow_i64(int64_t a, int64_t b) /* a^b modulo 2^64; negative powers truncate towards zero */
{
    uint64_t base = (uint64_t)a, y = 1;
    if (b < 0) {
        return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
    }
    for (uint64_t e = (uint64_t)b; e != 0; e >>= 1) {
        y = (e & 1) != 0 ? y * base : y;
        base *= base;
    }
    return (int64_t)y;
}

BINARY_F64(f_add, a + b)
BINARY_F64(f_sub, a - b)
BINARY_F64(f_mul, a *b)
BINARY_F64(f_div, a / b)
BINARY_F64(f_pow, pow(a, b))
BINARY_F64(f_fmod, fmod(a, b))
BINARY_F64(f_mod, mod_floor(a, b))
BINARY_F64(f_max, a > b || isnan(a) ? a : b)
BINARY_F64(f_min, a < b || isnan(a) ? a : b)
BINARY_F64(f_prelu, a < 0.0 ? a * b : a)
BINARY_F64(f_equal, a == b)
BINARY_F64(f_greater, a > b)
BINARY_F64(f_greater_equal, a >= b)
BINARY_F64(f_less, a < b)
BINARY_F64(f_less_equal, a <= b)

BINARY_I64(i_add, ua + ub)
BINARY_I64(i_sub, ua - ub)
BINARY_I64(i_mul, ua *ub)
BINARY_I64(i_div, div_i64(a, b))
BINARY_I64(u_div, ua / ub)
BINARY_I64(i_pow, pow_i64(a, b))
BINARY_I64(i_fmod, rem_i64(a, b))
BINARY_I64(i_mod, mod_i64(a, b))
BINARY_I64(u_mod, ua % ub)
BINARY_I64(i_max, a > b ? a : b)
BINARY_I64(u_max, ua > ub ? ua : ub)
BINARY_I64(i_min, a < b ? a : b)
BINARY_I64(u_min, ua < ub ? ua : ub)
BINARY_I64(i_prelu, a < 0 ? (int64_t)(ua * ub) : a)
BINARY_I64(i_equal, a == b)
BINARY_I64(i_greater, a > b)
BINARY_I64(u_greater, ua > ub)
BINARY_I64(i_greater_equal, a >= b)
BINARY_I64(u_greater_equal, ua >= ub)
BINARY_I64(i_less, a < b)
BINARY_I64(u_less, ua < ub)
BINARY_I64(i_less_equal, a <= b)
BINARY_I64(u_less_equal, ua <= ub)
BINARY_I64(i_and, a &b)
BINARY_I64(i_or, a | b)
BINARY_I64(i_xor, a ^ b)
BINARY_I64(u_shift_left, ub > 63 ? 0 : ua << ub)
BINARY_I64(u_shift_right, ub > 63 ? 0 : ua >> ub)
BINARY_I64(i_shift_right, a >> (ub > 63 ? 63 : ub))
BINARY_I64(u_copy, ua)

struct binary_row {
    block_f64 f;
    block_i64 i, u; /* signed, unsigned; NULL u = the same as i */
    bool compares;  /* gives BOOL */
};

static const struct binary_row rows[OP_COUNT] = {
    [OP_Add] = {f_add, i_add, NULL, false},
    [OP_Sub] = {f_sub, i_sub, NULL, false},
    [OP_Mul] = {f_mul, i_mul, NULL, false},
    [OP_Div] = {f_div, i_div, u_div, false},
    [OP_Pow] = {f_pow, i_pow, NULL, false},
    [OP_Mod] = {f_mod, i_mod, u_mod, false},
    [OP_Max] = {f_max, i_max, u_max, false},
    [OP_Min] = {f_min, i_min, u_min, false},
    [OP_Sum] = {f_add, i_add, NULL, false},
    [OP_Mean] = {f_add, i_add, NULL, false},
    [OP_PRelu] = {f_prelu, i_prelu, u_copy, false},
    [OP_Equal] = {f_equal, i_equal, NULL, true},
    [OP_Greater] = {f_greater, i_greater, u_greater, true},
    [OP_GreaterOrEqual] = {f_greater_equal, i_greater_equal, u_greater_equal, true},
    [OP_Less] = {f_less, i_less, u_less, true},
    [OP_LessOrEqual] = {f_less_equal, i_less_equal, u_less_equal, true},
    [OP_And] = {NULL, i_and, NULL, true},
    [OP_Or] = {NULL, i_or, NULL, true},
    [OP_Xor] = {NULL, i_xor, NULL, true},
    [OP_BitwiseAnd] = {NULL, i_and, NULL, false},
    [OP_BitwiseOr] = {NULL, i_or, NULL, false},
    [OP_BitwiseXor] = {NULL, i_xor, NULL, false},
};

static block_f64 pick_f64(const struct node *n)
{
    return n->op == OP_Mod && node_int(n, ATTR_fmod, 0) != 0 ? f_fmod : rows[n->op].f;
}

static block_i64 pick_i64(const struct node *n, enum pen_dtype dtype)
{
    const struct binary_row *row = &rows[n->op];
    bool is_unsigned = element_class(dtype) == ELEMENT_UNSIGNED;
    if (n->op == OP_BitShift) {
        return node_text_is(n, ATTR_direction, "LEFT", false) ? u_shift_left
               : is_unsigned                                  ? u_shift_right
                                                              : i_shift_right;
    }
    if (n->op == OP_Mod && !is_unsigned && node_int(n, ATTR_fmod, 0) != 0) {
        return i_fmod;
    }
    return is_unsigned && row->u != NULL ? row->u : row->i;
}

/* y = f(f(a, b), c) ... over all inputs; Mean divides at the end. */
static void run_f64(struct kernel_call *k, struct broadcast *b, block_f64 fn)
{
    struct activation_fused act = activation_of(k->n);
    double y[ELEMENT_BLOCK], other[ELEMENT_BLOCK];
    int64_t first, n;
    while (broadcast_next(b, &first, &n)) {
        load_f64(b->in[0].v->data, b->in[0].v->dtype, b->in[0].offset, b->in[0].step, n, y);
        for (uint32_t i = 1; i < b->count; i++) {
            load_f64(b->in[i].v->data, b->in[i].v->dtype, b->in[i].offset, b->in[i].step, n, other);
            fn(y, other, y, n);
        }
        for (int64_t i = 0; i < n && k->n->op == OP_Mean; i++) {
            y[i] /= (double)b->count;
        }
        activation_apply(&act, y, n);
        store_f64(k->out[0].data, k->out[0].dtype, first, 1, n, y);
    }
}

static enum pen_status run_i64(struct kernel_call *k, struct broadcast *b, block_i64 fn)
{
    bool divides = k->n->op == OP_Div || k->n->op == OP_Mod;
    int64_t y[ELEMENT_BLOCK], other[ELEMENT_BLOCK];
    int64_t first, n;
    while (broadcast_next(b, &first, &n)) {
        load_i64(b->in[0].v->data, b->in[0].v->dtype, b->in[0].offset, b->in[0].step, n, y);
        for (uint32_t i = 1; i < b->count; i++) {
            load_i64(b->in[i].v->data, b->in[i].v->dtype, b->in[i].offset, b->in[i].step, n, other);
            for (int64_t j = 0; j < n && divides; j++) {
                if (other[j] == 0) {
                    return kernel_fail(k, PEN_ERR_INVALID, "integer division by zero");
                }
            }
            fn(y, other, y, n);
        }
        store_i64(k->out[0].data, k->out[0].dtype, first, 1, n, y);
    }
    return PEN_OK;
}

static bool texts_equal(const struct string_view *a, const struct string_view *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->text, b->text, a->bytes) == 0);
}

/* Equal on strings. */
static void run_text(struct kernel_call *k, struct broadcast *b)
{
    uint8_t *y = k->out[0].data;
    int64_t first, n;
    while (broadcast_next(b, &first, &n)) {
        const struct string_view *p = (const struct string_view *)b->in[0].v->data + b->in[0].offset;
        const struct string_view *q = (const struct string_view *)b->in[1].v->data + b->in[1].offset;
        for (int64_t i = 0; i < n; i++) {
            y[first + i] = texts_equal(p + i * b->in[0].step, q + i * b->in[1].step);
        }
    }
}

enum pen_status kernel_binary(struct kernel_call *k)
{
    struct broadcast b;
    enum pen_dtype dtype = k->in[0].dtype;
    bool compares = rows[k->n->op].compares;
    enum pen_status status = broadcast_init(k, 0, k->n->in_count, &b);
    bool floats = element_class(dtype) == ELEMENT_FLOAT;
    for (uint32_t i = 1; i < k->n->in_count; i++) { /* Pow may mix types: an integer base with a float power */
        floats = floats || element_class(k->in[i].dtype) == ELEMENT_FLOAT;
        if (status == PEN_OK && k->in[i].dtype != dtype && k->n->op != OP_Pow) {
            status = kernel_fail(k, PEN_ERR_DTYPE, "inputs are %s and %s", pen_dtype_name(dtype),
                                 pen_dtype_name(k->in[i].dtype));
        }
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 0, compares ? PEN_DTYPE_BOOL : dtype, &b.shape);
    }
    if (status != PEN_OK) {
        return status;
    }
    if (dtype == PEN_DTYPE_STRING) {
        run_text(k, &b);
        return PEN_OK;
    }
    if (floats && pick_f64(k->n) == NULL) {
        return kernel_fail(k, PEN_ERR_DTYPE, "not defined for %s", pen_dtype_name(dtype));
    }
    if (floats) {
        run_f64(k, &b, pick_f64(k->n));
        return PEN_OK;
    }
    return run_i64(k, &b, pick_i64(k->n, dtype));
}

/* Where: y = condition ? x : z, any dtype. */
enum pen_status kernel_where(struct kernel_call *k)
{
    struct broadcast b;
    int64_t first, n;
    enum pen_status status = broadcast_init(k, 0, 3, &b);
    if (status == PEN_OK && k->in[1].dtype != k->in[2].dtype) {
        status = kernel_fail(k, PEN_ERR_DTYPE, "inputs are %s and %s", pen_dtype_name(k->in[1].dtype),
                             pen_dtype_name(k->in[2].dtype));
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[1].dtype, &b.shape);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t size = (int64_t)element_size(k->in[1].dtype);
    uint8_t *y = k->out[0].data;
    while (broadcast_next(&b, &first, &n)) {
        const uint8_t *condition = (const uint8_t *)b.in[0].v->data + b.in[0].offset;
        for (int64_t i = 0; i < n; i++) {
            const struct broadcast_input *from = condition[i * b.in[0].step] != 0 ? &b.in[1] : &b.in[2];
            const uint8_t *x = (const uint8_t *)from->v->data + (from->offset + i * from->step) * size;
            memcpy(y + (first + i) * size, x, (size_t)size);
        }
    }
    return PEN_OK;
}
