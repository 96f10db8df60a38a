#include "graph/infer_util.h"
#include "graph/rules.h"

/* Shape of a matrix product with broadcast batch axes; one-dimensional operands gain and lose an axis. */
static bool product_shape(const struct shape *a, const struct shape *b, struct shape *ret)
{
    if (a->rank < 0 || b->rank < 0) {
        *ret = shape_unknown();
        return true;
    }
    if (a->rank == 0 || b->rank == 0)
        return false;
    struct shape head_a = *a, head_b = *b, out;
    int64_t inner_a = a->dim[a->rank - 1], inner_b = b->dim[b->rank > 1 ? b->rank - 2 : 0], ignored;
    if (!infer_same_dim(inner_a, inner_b, &ignored))
        return false;
    head_a.rank = a->rank > 1 ? a->rank - 2 : 0;
    head_b.rank = b->rank > 1 ? b->rank - 2 : 0;
    if (!shape_broadcast(&head_a, &head_b, &out) || out.rank + 2 > PEN_MAX_RANK)
        return false;
    if (a->rank > 1)
        out.dim[out.rank++] = a->dim[a->rank - 2];
    if (b->rank > 1)
        out.dim[out.rank++] = b->dim[b->rank - 1];
    *ret = out;
    return true;
}

static enum pen_status product(struct infer *c, uint32_t b_at, enum pen_dtype dtype, struct pen_error *reterr)
{
    const struct shape *a = infer_shape_of(c, 0), *b = infer_shape_of(c, b_at);
    struct shape out;
    if (!product_shape(a, b, &out)) {
        char left[96], right[96];
        return infer_fail(c, reterr, "matrices %s and %s do not multiply", shape_text(a, left, sizeof left),
                          shape_text(b, right, sizeof right));
    }
    infer_put(c, 0, dtype, &out);
    return PEN_OK;
}

enum pen_status infer_matmul(struct infer *c, struct pen_error *reterr)
{
    return product(c, 1, infer_dtype_of(c, 0), reterr);
}

enum pen_status infer_matmul_integer(struct infer *c, struct pen_error *reterr)
{
    return product(c, 1, PEN_DTYPE_I32, reterr);
}

enum pen_status infer_qlinear_matmul(struct infer *c, struct pen_error *reterr)
{
    return product(c, 3, infer_dtype_of(c, 7), reterr);
}

static enum pen_status gemm_at(struct infer *c, uint32_t b_at, uint32_t c_at, enum pen_dtype dtype,
                               struct pen_error *reterr)
{
    const struct shape *a = infer_shape_of(c, 0), *b = infer_shape_of(c, b_at), *add = infer_shape_of(c, c_at);
    struct shape out = infer_unknown_of_rank(2), wide;
    bool ta = node_int(c->n, ATTR_transA, 0) != 0, tb = node_int(c->n, ATTR_transB, 0) != 0;
    char left[96], right[96];
    int64_t inner;
    if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
        return infer_fail(c, reterr, "operands %s and %s are not matrices", shape_text(a, left, sizeof left),
                          shape_text(b, right, sizeof right));
    if (a->rank == 2)
        out.dim[0] = a->dim[ta ? 1 : 0];
    if (b->rank == 2)
        out.dim[1] = b->dim[tb ? 0 : 1];
    if (a->rank == 2 && b->rank == 2 && !infer_same_dim(a->dim[ta ? 0 : 1], b->dim[tb ? 1 : 0], &inner))
        return infer_fail(c, reterr, "matrices %s and %s do not multiply", shape_text(a, left, sizeof left),
                          shape_text(b, right, sizeof right));
    if (add->rank >= 0 && (!shape_broadcast(&out, add, &wide) || wide.rank != 2))
        return infer_fail(c, reterr, "C of shape %s does not broadcast to %s", shape_text(add, left, sizeof left),
                          shape_text(&out, right, sizeof right));
    infer_put(c, 0, dtype, &out);
    return PEN_OK;
}

enum pen_status infer_gemm(struct infer *c, struct pen_error *reterr)
{
    return gemm_at(c, 1, 2, infer_dtype_of(c, 0), reterr);
}

enum pen_status infer_qgemm(struct infer *c, struct pen_error *reterr)
{
    return gemm_at(c, 3, 6, infer_has(c, 7) ? infer_dtype_of(c, 0) : PEN_DTYPE_F32, reterr);
}

enum pen_status infer_matmul_nbits(struct infer *c, struct pen_error *reterr)
{
    struct shape out = *infer_shape_of(c, 0);
    int64_t k = node_int(c->n, ATTR_K, 0), n = node_int(c->n, ATTR_N, 0);
    if (k < 1 || n < 1 || out.rank == 0 || (out.rank > 0 && out.dim[out.rank - 1] >= 0 && out.dim[out.rank - 1] != k))
        return infer_fail(c, reterr, "the input does not end in K = %lld", (long long)k);
    if (out.rank > 0)
        out.dim[out.rank - 1] = n;
    infer_put(c, 0, infer_dtype_of(c, 0), &out);
    return PEN_OK;
}

enum pen_status infer_det(struct infer *c, struct pen_error *reterr)
{
    struct shape out = *infer_shape_of(c, 0);
    int64_t side;
    if (out.rank >= 0 && (out.rank < 2 || !infer_same_dim(out.dim[out.rank - 1], out.dim[out.rank - 2], &side)))
        return infer_fail(c, reterr, "the input is not made of square matrices");
    if (out.rank >= 0)
        out.rank -= 2;
    infer_put(c, 0, infer_dtype_of(c, 0), &out);
    return PEN_OK;
}
