/* NonMaxSuppression. Source: ONNX; boxes [batch, boxes, 4], scores [batch, classes, boxes], result rows (batch, class, box). */
#include "backend/reference/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct box {
    double y1, x1, y2, x2, score;
    int64_t at;
};

static struct box box_read(const struct rt_value *boxes, int64_t first, bool center)
{
    double v[4];
    load_f64(boxes->data, boxes->dtype, first, 1, 4, v);
    if (center) { /* x, y, width, height */
        return (struct box){v[1] - v[3] / 2.0, v[0] - v[2] / 2.0, v[1] + v[3] / 2.0, v[0] + v[2] / 2.0, 0.0, 0};
    }
    return (struct box){fmin(v[0], v[2]), fmin(v[1], v[3]), fmax(v[0], v[2]), fmax(v[1], v[3]), 0.0, 0};
}

/* intersection / union */
static double overlap(const struct box *a, const struct box *b)
{
    double height = fmin(a->y2, b->y2) - fmax(a->y1, b->y1), width = fmin(a->x2, b->x2) - fmax(a->x1, b->x1);
    double common = height <= 0.0 || width <= 0.0 ? 0.0 : height * width;
    double all = (a->y2 - a->y1) * (a->x2 - a->x1) + (b->y2 - b->y1) * (b->x2 - b->x1) - common;
    return all <= 0.0 ? 0.0 : common / all;
}

static int by_score(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->at > y->at) - (x->at < y->at);
}

struct nms {
    int64_t batches, classes, boxes, limit; /* limit per batch and class */
    double iou, score, decay;               /* decay: -0.5 / sigma, 0 = overlapped boxes are dropped */
    bool has_score, center;
};

/* Greedy: best score first, dropped when it overlaps a kept one. Kept boxes move to the front; gives their number. */
static int64_t suppress(const struct nms *p, struct box *boxes, int64_t count)
{
    int64_t kept = 0;
    qsort(boxes, (size_t)count, sizeof *boxes, by_score);
    for (int64_t i = 0; i < count && kept < p->limit; i++) {
        bool keep = true;
        for (int64_t j = 0; j < kept && keep; j++) {
            keep = overlap(&boxes[i], &boxes[j]) <= p->iou;
        }
        if (keep) {
            boxes[kept++] = boxes[i];
        }
    }
    return kept;
}

/*
 * Soft: score *= exp(-overlap^2 / (2 sigma)) for each kept box, and 0 beyond the overlap that drops. The best is taken as it stands when no box kept since it
 * was last weighed lowers it. Source: TensorFlow's NonMaxSuppressionV5.
 */
static int64_t suppress_soft(const struct nms *p, struct box *boxes, int64_t count)
{
    int64_t kept = 0;
    while (kept < p->limit && kept < count) {
        int64_t best = kept;
        for (int64_t i = kept + 1; i < count; i++) {
            if (boxes[i].score > boxes[best].score ||
                (boxes[i].score == boxes[best].score && boxes[i].at < boxes[best].at))
                best = i;
        }
        struct box taken = boxes[best];
        if (!(taken.score > p->score)) {
            break;
        }
        boxes[best] = boxes[kept];
        boxes[kept++] = taken;
        for (int64_t i = kept; i < count; i++) {
            double common = overlap(&boxes[i], &taken);
            boxes[i].score *= common <= p->iou ? exp(p->decay * common * common) : 0.0;
        }
    }
    return kept;
}

static enum pen_status nms_init(struct kernel_call *k, struct nms *p)
{
    const struct shape *b = &k->in[0].shape, *s = &k->in[1].shape;
    if (b->rank != 3 || s->rank != 3 || b->dim[2] != 4 || b->dim[0] != s->dim[0] || b->dim[1] != s->dim[2]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "boxes and scores do not fit together");
    }
    *p = (struct nms){.batches = s->dim[0], .classes = s->dim[1], .boxes = s->dim[2]};
    p->limit = i64_from_f64(kernel_scalar(k, 2, 0.0));
    p->iou = kernel_scalar(k, 3, 0.0);
    p->has_score = kernel_has(k, 4) && shape_elements(&k->in[4].shape) > 0;
    p->score = kernel_scalar(k, 4, 0.0);
    double sigma = (double)node_float(k->n, ATTR_soft_sigma, 0.0f);
    p->decay = sigma > 0.0 ? -0.5 / sigma : 0.0;
    p->center = node_int(k->n, ATTR_center_point_box, 0) != 0;
    p->limit = p->limit < 0 ? 0 : p->limit > p->boxes ? p->boxes : p->limit;
    return PEN_OK;
}

/* Boxes of one batch entry that reach the score threshold for one class. */
static int64_t candidates(const struct kernel_call *k, const struct nms *p, int64_t batch, int64_t class,
                          struct box *ret)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->boxes; i++) {
        double score = load_one_f64(k->in[1].data, k->in[1].dtype, (batch * p->classes + class) * p->boxes + i);
        if (p->has_score && !(score > p->score)) {
            continue;
        }
        ret[count] = box_read(&k->in[0], (batch * p->boxes + i) * 4, p->center);
        ret[count].score = score;
        ret[count++].at = i;
    }
    return count;
}

enum pen_status kernel_nms(struct kernel_call *k)
{
    struct nms p = {0};
    enum pen_status status = nms_init(k, &p);
    int64_t rows = 0;
    size_t room = 0;
    if (status != PEN_OK) {
        return status;
    }
    if (__builtin_mul_overflow((size_t)(p.batches * p.classes), (size_t)p.limit * 3 * sizeof(int64_t), &room)) {
        return kernel_fail(k, PEN_ERR_TOO_LARGE, "too many boxes");
    }
    struct box *boxes = kernel_scratch(k, (size_t)p.boxes * sizeof *boxes);
    int64_t *found = kernel_scratch(k, room);
    double *scores = kernel_scratch(k, room); /* more than enough */
    if (boxes == NULL || found == NULL || scores == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld boxes", (long long)p.boxes);
    }
    for (int64_t i = 0; i < p.batches * p.classes; i++) {
        int64_t count = candidates(k, &p, i / p.classes, i % p.classes, boxes);
        int64_t kept = p.decay == 0.0 ? suppress(&p, boxes, count) : suppress_soft(&p, boxes, count);
        for (int64_t j = 0; j < kept; j++, rows++) {
            scores[rows] = boxes[j].score;
            found[rows * 3] = i / p.classes;
            found[rows * 3 + 1] = i % p.classes;
            found[rows * 3 + 2] = boxes[j].at;
        }
    }
    struct shape out = shape_of(2, (const int64_t[]){rows, 3});
    status = kernel_output(k, 0, PEN_DTYPE_I64, &out);
    if (status == PEN_OK && rows > 0) {
        memcpy(k->out[0].data, found, (size_t)rows * 3 * sizeof *found);
    }
    if (status == PEN_OK && k->n->out_count > 1) {
        struct shape list = shape_of(1, &rows);
        status = kernel_output(k, 1, k->in[1].dtype, &list);
        for (int64_t i = 0; status == PEN_OK && i < rows; i++) {
            store_one_f64(k->out[1].data, k->in[1].dtype, i, scores[i]);
        }
    }
    return status;
}
