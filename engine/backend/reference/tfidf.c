/* TfIdfVectorizer: counts n-grams of a pool in each row. Source: ONNX. */
#include "backend/reference/kernels.h"

#include <string.h>

struct pool {
    const int64_t *ints;             /* the n-grams one after another, or ... */
    const struct string_view *texts; /* ... of strings */
    int64_t items;
    const int64_t *starts; /* ngram_counts: where the (i + 1)-grams begin */
    uint32_t sizes;
    const int64_t *columns; /* ngram_indexes: output column of each n-gram */
    uint32_t grams;
    int64_t width;
};

static enum pen_status pool_init(struct kernel_call *k, struct pool *p)
{
    uint32_t ints = 0;
    const struct attr *texts = node_attr(k->n, ATTR_pool_strings);
    *p = (struct pool){.ints = node_ints(k->n, ATTR_pool_int64s, &ints)};
    p->texts = texts != NULL ? texts->texts : NULL;
    p->items = p->texts != NULL ? (int64_t)texts->count : (int64_t)ints;
    p->starts = node_ints(k->n, ATTR_ngram_counts, &p->sizes);
    p->columns = node_ints(k->n, ATTR_ngram_indexes, &p->grams);
    if ((p->texts != NULL) != (k->in[0].dtype == PEN_DTYPE_STRING) || p->starts == NULL || p->columns == NULL) {
        return kernel_fail(k, PEN_ERR_INVALID, "the pool does not fit the input");
    }
    int64_t grams = 0;
    for (uint32_t i = 0; i < p->sizes; i++) {
        int64_t end = i + 1 < p->sizes ? p->starts[i + 1] : p->items;
        if (p->starts[i] < 0 || end < p->starts[i] || end > p->items || (end - p->starts[i]) % ((int64_t)i + 1) != 0) {
            return kernel_fail(k, PEN_ERR_INVALID, "ngram_counts do not fit the pool");
        }
        grams += (end - p->starts[i]) / ((int64_t)i + 1);
    }
    for (uint32_t i = 0; i < p->grams; i++) {
        if (p->columns[i] < 0 || p->columns[i] > INT32_MAX) {
            return kernel_fail(k, PEN_ERR_INVALID, "column %lld", (long long)p->columns[i]);
        }
        p->width = p->columns[i] >= p->width ? p->columns[i] + 1 : p->width;
    }
    return grams <= (int64_t)p->grams ? PEN_OK : kernel_fail(k, PEN_ERR_INVALID, "fewer ngram_indexes than n-grams");
}

static bool item_equal(const struct pool *p, int64_t at, const struct rt_value *x, int64_t i)
{
    if (p->texts == NULL) {
        return p->ints[at] == load_one_i64(x->data, x->dtype, i);
    }
    const struct string_view *s = &p->texts[at], *t = (const struct string_view *)x->data + i;
    return s->bytes == t->bytes && (s->bytes == 0 || memcmp(s->text, t->text, s->bytes) == 0);
}

/* Adds to count[column] for each n-gram of length n that stands at `first` with `step` between its items. */
static void grams_count(const struct pool *p, const struct rt_value *x, int64_t first, int64_t step, int64_t n,
                        double *count)
{
    int64_t gram = 0;
    for (int64_t i = 1; i < n; i++) { /* number of the first n-gram of this length */
        gram += (p->starts[i] - p->starts[i - 1]) / i;
    }
    int64_t end = n < (int64_t)p->sizes ? p->starts[n] : p->items;
    for (int64_t at = p->starts[n - 1]; at < end; at += n, gram++) {
        bool same = true;
        for (int64_t i = 0; i < n && same; i++) {
            same = item_equal(p, at + i, x, first + i * step);
        }
        if (same) {
            count[p->columns[gram]] += 1.0;
        }
    }
}

/* TF: the count; IDF: the weight where the count is not 0; TFIDF: both multiplied. Weights belong to n-grams, by their column. */
static void row_store(struct kernel_call *k, const struct pool *p, int64_t row, double *count)
{
    const struct attr *weights = node_attr(k->n, ATTR_weights);
    bool tf = node_text_is(k->n, ATTR_mode, "TF", true), idf = node_text_is(k->n, ATTR_mode, "IDF", false);
    for (uint32_t g = 0; g < p->grams && !tf; g++) {
        double w = weights != NULL && g < weights->count ? (double)weights->floats[g] : 1.0;
        double *c = &count[p->columns[g]];
        *c = idf ? (*c > 0.0 ? w : 0.0) : *c * w;
    }
    store_f64(k->out[0].data, PEN_DTYPE_F32, row * p->width, 1, p->width, count);
}

/* Input [C] or [N, C]; skips widen the gaps between the items of an n-gram. */
enum pen_status kernel_tfidf(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct pool p;
    int64_t low = node_int(k->n, ATTR_min_gram_length, 1), high = node_int(k->n, ATTR_max_gram_length, 1);
    int64_t skips = node_int(k->n, ATTR_max_skip_count, 0);
    enum pen_status status = pool_init(k, &p);
    if (status == PEN_OK &&
        (x->shape.rank < 1 || x->shape.rank > 2 || low < 1 || high < low || high > (int64_t)p.sizes)) {
        status = kernel_fail(k, PEN_ERR_INVALID, "n-grams of %lld to %lld", (long long)low, (long long)high);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t rows = x->shape.rank == 2 ? x->shape.dim[0] : 1, length = x->shape.dim[x->shape.rank - 1];
    struct shape out = x->shape.rank == 2 ? shape_of(2, (const int64_t[]){rows, p.width}) : shape_of(1, &p.width);
    double *count = kernel_scratch(k, (size_t)p.width * sizeof *count);
    status = kernel_output(k, 0, PEN_DTYPE_F32, &out);
    if (status == PEN_OK && count == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld columns", (long long)p.width);
    }
    for (int64_t row = 0; row < rows && status == PEN_OK; row++) {
        memset(count, 0, (size_t)p.width * sizeof *count);
        for (int64_t n = low; n <= high; n++) {
            for (int64_t step = 1; step <= (n == 1 ? 1 : skips + 1) && step <= length; step++) {
                for (int64_t first = 0; first + (n - 1) * step < length; first++) {
                    grams_count(&p, x, row * length + first, step, n, count);
                }
            }
        }
        row_store(k, &p, row, count);
    }
    return status;
}
