#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/selftest.h"
#include "backend/vulkan/single.h"
#include "backend/vulkan/verdicts.h"
#include "graph/kept.h"

/* Attention by cooperative matrices, in each of its tiles, against plain C. A device that computes it wrong has the kernel without matrices. */

#define NAME  "attention_cm"
#define SCALE 3.0f /* scores of each row are so unlike that a mean of the values is wrong */
#define STEP                                                                                                           \
    9.0f /* two rows of three: those of each 32 keys are so far above those before; sums are scaled on the way */
#define BOUND 1e-2 /* the values are within 0.5, the numbers of f16 */

struct sample {
    size_t heads, queries, keys, size, values;
    bool causal;
};
/* One subgroup, two and four; blocks of few keys and many; the narrowest and the widest; tails and whole eights. The first is all that a device on the CPU runs. */
static const struct sample samples[] = {
    {2, 9, 70, 20, 13, false}, {2, 70, 150, 64, 64, true}, {1, 40, 100, 128, 128, true}, {1, 33, 65, 250, 136, false}};

struct trial {
    const struct sample *sample;
    struct vk_single single;
    float *q, *k, *v, *mask, *y;
    size_t q_count, k_count, v_count, mask_count, y_count;
};
static const struct sample *made; /* while its node is made */

static enum pen_status attrs_set(struct graph *g, uint32_t node)
{
    bool ok = graph_attr_float(g, node, ATTR_scale, SCALE) == PEN_OK &&
              graph_attr_int(g, node, ATTR_is_causal, made->causal) == PEN_OK;
    return ok ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static void trial_fini(struct trial *t)
{
    vk_single_fini(&t->single);
    free(t->q);
    free(t->k);
    free(t->v);
    free(t->mask);
    free(t->y);
}

static struct vk_single_value value_of(const struct sample *s, size_t rows, size_t width, const float *data)
{
    return (struct vk_single_value){
        PEN_DTYPE_F32, shape_of(4, (int64_t[]){1, (int64_t)s->heads, (int64_t)rows, (int64_t)width}), data};
}

static enum pen_status trial_init(struct backend *b, const struct sample *s, struct trial *t, struct pen_error *reterr)
{
    *t = (struct trial){.sample = s,
                        .q_count = s->heads * s->queries * s->size,
                        .k_count = s->heads * s->keys * s->size,
                        .v_count = s->heads * s->keys * s->values,
                        .mask_count = s->queries * s->keys,
                        .y_count = s->heads * s->queries * s->values};
    t->q = malloc(t->q_count * sizeof *t->q);
    t->k = malloc(t->k_count * sizeof *t->k);
    t->v = malloc(t->v_count * sizeof *t->v);
    t->mask = malloc(t->mask_count * sizeof *t->mask);
    t->y = malloc(t->y_count * sizeof *t->y);
    if (t->q == NULL || t->k == NULL || t->v == NULL || t->mask == NULL || t->y == NULL) {
        trial_fini(t);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    vk_single_fill(t->q, t->q_count, 7);
    vk_single_fill(t->k, t->k_count, 11);
    vk_single_fill(t->v, t->v_count, 13);
    memset(t->y, 0xFF, t->y_count * sizeof *t->y); /* NaN: what is not written is seen */
    for (size_t i = 0; i < t->mask_count; i++) {
        t->mask[i] = STEP * (float)(i % s->keys / 32) * (float)(i / s->keys % 3);
    }
    const struct vk_single_value in[] = {
        value_of(s, s->queries, s->size, NULL),
        value_of(s, s->keys, s->size, NULL),
        value_of(s, s->keys, s->values, t->v),
        {PEN_DTYPE_F32, shape_of(2, (int64_t[]){(int64_t)s->queries, (int64_t)s->keys}), t->mask}};
    const struct vk_single_value out = value_of(s, s->queries, s->values, NULL);
    made = s;
    enum pen_status status = vk_single_node(b, OP_Attention, in, 4, &out, attrs_set, &t->single, reterr);
    if (status != PEN_OK) {
        trial_fini(t);
    }
    return status;
}

static double score_of(const struct trial *t, size_t head, size_t query, size_t key)
{
    const struct sample *s = t->sample;
    const float *q = t->q + (head * s->queries + query) * s->size, *k = t->k + (head * s->keys + key) * s->size;
    double sum = 0.0;
    for (size_t i = 0; i < s->size; i++) {
        sum += (double)q[i] * (double)k[i];
    }
    return sum * (double)SCALE + (double)t->mask[query * s->keys + key];
}

/* The largest error of one row of queries. scores: room for its keys. */
static double row_error(const struct trial *t, size_t head, size_t query, double *scores)
{
    const struct sample *s = t->sample;
    const size_t keys = s->causal && query < s->keys ? query + 1 : s->keys;
    double most = -HUGE_VAL, total = 0.0, worst = 0.0;
    for (size_t key = 0; key < keys; key++) {
        scores[key] = score_of(t, head, query, key);
        most = fmax(most, scores[key]);
    }
    for (size_t key = 0; key < keys; key++) {
        scores[key] = exp(scores[key] - most);
        total += scores[key];
    }
    for (size_t c = 0; c < s->values; c++) {
        double sum = 0.0;
        for (size_t key = 0; key < keys; key++) {
            sum += scores[key] * (double)t->v[(head * s->keys + key) * s->values + c];
        }
        const double d = fabs((double)t->y[(head * s->queries + query) * s->values + c] - sum / total);
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

static enum pen_status error_of(const struct trial *t, double *worst, struct pen_error *reterr)
{
    const struct sample *s = t->sample;
    double *scores = malloc(s->keys * sizeof *scores);
    if (scores == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    for (size_t row = 0; row < s->heads * s->queries; row++) {
        const double d = row_error(t, row / s->queries, row % s->queries, scores);
        *worst = d > *worst || isnan(d) ? d : *worst;
    }
    free(scores);
    return PEN_OK;
}

static enum pen_status sample_try(struct backend *b, const struct sample *s, double *worst, struct pen_error *reterr)
{
    struct trial t;
    bool ran = false;
    enum pen_status status = trial_init(b, s, &t, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const void *in[] = {t.q, t.k};
    status = vk_selftest_run(b, &t.single, NAME, in, t.y, t.y_count * sizeof *t.y, &ran, reterr);
    *worst = status == PEN_OK && !ran ? INFINITY : *worst;
    if (status == PEN_OK && ran) {
        status = error_of(&t, worst, reterr);
    }
    trial_fini(&t);
    return status;
}

enum pen_status vk_selftest_attention(struct backend *b, struct pen_error *reterr)
{
    const enum vk_family only = b->kernels.only;
    const bool all = vk_selftest_all(b), named = only == VK_FAMILY_CM || only == VK_FAMILY_CM2;
    const size_t count = b->kernels.device == VK_CLASS_SOFTWARE ? 1 : sizeof samples / sizeof samples[0];
    double worst = 0.0;
    enum pen_status status = PEN_OK;
    if (!KEPT(vulkan_Attention) || !b->kernels.cm || !b->device->f16 || !(named || (only == VK_FAMILY_AUTO && all)) ||
        (b->kernels.families_off & 1u << VK_FAMILY_CM) != 0) {
        return PEN_OK;
    }
    b->kernels.only = VK_FAMILY_CM;
    for (size_t i = 0; status == PEN_OK && i < count && worst <= BOUND; i++) {
        status = sample_try(b, &samples[i], &worst, reterr);
    }
    b->kernels.only = only;
    if (status == PEN_OK) {
        char wrong[80];
        const bool right = worst <= BOUND;
        vk_selftest_text(worst, BOUND, wrong, sizeof wrong);
        vk_selftest_note(b, NAME, right ? NULL : wrong);
        b->kernels.ops_off |= right ? 0 : VK_OFF_ATTENTION;
    }
    return status;
}
