/* RotaryEmbedding: pairs of a head's elements are turned by the angle of their position. Source: ONNX, opset 23. */
#include "backend/reference/kernels.h"

struct rotary {
    int64_t batch, heads, length, rows, size,
        dim; /* rows: of the tables, without positions; dim: elements turned, the rest is copied */
    bool packed, interleaved;
    const struct rt_value *x;
    const struct rt_value *positions; /* [batch, length] or NULL */
};

static enum pen_status rotary_init(struct kernel_call *k, struct rotary *r)
{
    const struct shape *s = &k->in[0].shape;
    *r = (struct rotary){
        .x = &k->in[0], .packed = s->rank == 3, .interleaved = node_int(k->n, ATTR_interleaved, 0) != 0};
    r->heads = r->packed ? node_int(k->n, ATTR_num_heads, 0) : s->rank == 4 ? s->dim[1] : 0;
    if (r->heads < 1 || (r->packed && s->dim[2] % r->heads != 0)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "input of rank %d with %lld heads", s->rank, (long long)r->heads);
    }
    r->batch = s->dim[0];
    r->length = s->dim[r->packed ? 1 : 2];
    r->size = r->packed ? s->dim[2] / r->heads : s->dim[3];
    r->dim = node_int(k->n, ATTR_rotary_embedding_dim, 0);
    r->dim = r->dim == 0 ? r->size : r->dim;
    r->positions = kernel_has(k, 3) ? &k->in[3] : NULL;
    const struct shape *c = &k->in[1].shape;
    bool shared = c->rank == 3 && c->dim[0] == 1; /* one table for the whole batch: PyTorch's exporter writes it so */
    r->rows = shared ? r->length : r->batch * r->length;
    int64_t rows = r->positions != NULL ? (c->rank == 2 ? c->dim[0] : 0) : r->rows;
    bool fits = r->dim >= 0 && r->dim <= r->size && r->dim % 2 == 0 && c->rank >= 2 &&
                c->dim[c->rank - 1] == r->dim / 2 && shape_elements(c) == rows * (r->dim / 2) &&
                shape_equal(c, &k->in[2].shape) &&
                (r->positions == NULL || shape_elements(&r->positions->shape) == r->batch * r->length);
    return fits ? PEN_OK : kernel_fail(k, PEN_ERR_SHAPE, "the tables of sines and cosines do not fit");
}

/* real = cos * a - sin * b, imaginary = sin * a + cos * b; (a, b) are neighbours when interleaved, halves otherwise. */
static void turn(struct kernel_call *k, const struct rotary *r, int64_t first, int64_t row)
{
    const struct rt_value *x = r->x;
    int64_t half = r->dim / 2;
    for (int64_t i = 0; i < half; i++) {
        int64_t at = first + (r->interleaved ? 2 * i : i), pair = r->interleaved ? at + 1 : at + half;
        double a = load_one_f64(x->data, x->dtype, at), b = load_one_f64(x->data, x->dtype, pair);
        double c = load_one_f64(k->in[1].data, k->in[1].dtype, row * half + i);
        double s = load_one_f64(k->in[2].data, k->in[2].dtype, row * half + i);
        store_one_f64(k->out[0].data, x->dtype, at, c * a - s * b);
        store_one_f64(k->out[0].data, x->dtype, pair, s * a + c * b);
    }
    for (int64_t i = r->dim; i < r->size; i++) {
        store_one_f64(k->out[0].data, x->dtype, first + i, load_one_f64(x->data, x->dtype, first + i));
    }
}

enum pen_status kernel_rotary(struct kernel_call *k)
{
    struct rotary r;
    enum pen_status status = rotary_init(k, &r);
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    for (int64_t i = 0; status == PEN_OK && i < r.batch * r.length * r.heads; i++) {
        int64_t h = i % r.heads, t = i / r.heads % r.length, b = i / (r.heads * r.length);
        int64_t first = r.packed ? i * r.size : ((b * r.heads + h) * r.length + t) * r.size;
        int64_t row = r.positions != NULL ? b * r.length + t : (b * r.length + t) % r.rows;
        if (r.positions != NULL) {
            row = load_one_i64(r.positions->data, r.positions->dtype, row);
            if (row < 0 || row >= k->in[1].shape.dim[0]) {
                return kernel_fail(k, PEN_ERR_INVALID, "position %lld is outside the table", (long long)row);
            }
        }
        turn(k, &r, first, row);
    }
    return status;
}
