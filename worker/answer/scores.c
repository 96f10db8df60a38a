/* scores.c - softmax, sigmoid, and the best classes of a classifier. */
#include "parts.h"

#include <math.h>
#include <string.h>

float answer_sigmoid(float x)
{
    float e = expf(-fabsf(x));
    return x >= 0 ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

float answer_activate(float x, uint32_t activation)
{
    return activation == ANSWER_SIGMOID ? answer_sigmoid(x) : x;
}

/* exp(x - max) / sum of exp(x - max), summed in double. */
void answer_softmax(const float *from, float *to, size_t count, size_t step)
{
    float high = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        high = from[i * step] > high ? from[i * step] : high;
    for (size_t i = 0; i < count; i++)
        sum += (double)(to[i * step] = expf(from[i * step] - high));
    for (size_t i = 0; i < count; i++)
        to[i * step] = (float)((double)to[i * step] / sum);
}

/* The view's numbers, so that they may be written. */
static enum pen_status view_own(struct answer_row *row, struct answer_view *view, struct pen_error *reterr)
{
    if (view->own)
        return PEN_OK;
    float *copy = row_take(row, view->count, sizeof *copy, reterr);
    if (!copy)
        return row_short(row);
    memcpy(copy, view->data, view->count * sizeof *copy);
    view->data = copy;
    view->own = true;
    return PEN_OK;
}

/* ---- sigmoid, softmax ---- */

static enum pen_status sigmoid_run(const struct answer *answer, const struct answer_step *step, struct answer_row *row,
                                   struct pen_error *reterr)
{
    (void)answer;
    for (uint32_t i = 0; i < step->activate.from.count; i++) {
        struct answer_view *view = &row->views[step->activate.from.output[i]];
        enum pen_status status = view_own(row, view, reterr);
        if (status != PEN_OK)
            return status;
        for (size_t j = 0; j < view->count; j++)
            view->data[j] = answer_sigmoid(view->data[j]);
    }
    return PEN_OK;
}

static enum pen_status axis_softmax(struct answer_view *view, uint32_t axis)
{
    size_t count = (size_t)view->dims[axis], inner = 1;
    for (uint32_t d = axis + 1; d < view->rank; d++)
        inner *= (size_t)view->dims[d];
    for (size_t at = 0; count && at < view->count; at += count * inner)
        for (size_t i = 0; i < inner; i++)
            answer_softmax(view->data + at + i, view->data + at + i, count, inner);
    return PEN_OK;
}

static enum pen_status softmax_run(const struct answer *answer, const struct answer_step *step, struct answer_row *row,
                                   struct pen_error *reterr)
{
    (void)answer;
    uint32_t back = (uint32_t)-step->activate.axis;
    for (uint32_t i = 0; i < step->activate.from.count; i++) {
        struct answer_view *view = &row->views[step->activate.from.output[i]];
        if (view->rank < back)
            return pen_error_set(reterr, PEN_ERR_SHAPE, "axis -%u: the output has %u dimensions without the batch",
                                 back, view->rank);
        enum pen_status status = view_own(row, view, reterr);
        if (status == PEN_OK)
            status = axis_softmax(view, view->rank - back);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static void softmax_defaults(struct answer_step *step)
{
    step->activate.axis = -1;
}

static enum pen_status softmax_compile(struct answer_reader *reader, struct answer_step *step)
{
    double axis = step->activate.axis;
    if (axis != floor(axis))
        return reader_refuse(reader, PEN_ERR_INVALID, "axis must be a whole number from -8 to -1");
    for (uint32_t i = 0; i < step->activate.from.count; i++) {
        enum pen_status status =
            reader_needs_rank(reader, step->activate.from.output[i], (uint32_t)-axis, PEN_MAX_RANK);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static const struct answer_option sigmoid_options[] = {
    {.name = "output", .type = OPTION_SOURCES, .offset = offsetof(struct step_activate, from), .needed = true},
    {.name = NULL},
};
static const struct answer_option softmax_options[] = {
    {.name = "output", .type = OPTION_SOURCES, .offset = offsetof(struct step_activate, from), .needed = true},
    {.name = "axis", .type = OPTION_NUMBER, .offset = offsetof(struct step_activate, axis), .min = -8, .max = -1},
    {.name = NULL},
};
const struct answer_kind kind_sigmoid = {.name = "sigmoid", .options = sigmoid_options, .run = sigmoid_run};
const struct answer_kind kind_softmax = {.name = "softmax",
                                         .options = softmax_options,
                                         .defaults = softmax_defaults,
                                         .compile = softmax_compile,
                                         .run = softmax_run};

/* ---- top_k ---- */

/* Sinks a new score into the list of the best; equal ones stay in the order of classes. */
static size_t best_insert(struct class_score *best, size_t count, size_t most, struct class_score one)
{
    size_t at = count < most ? count : most - 1;
    if (count == most && !(one.score > best[at].score))
        return count;
    while (at > 0 && one.score > best[at - 1].score) {
        best[at] = best[at - 1];
        at--;
    }
    best[at] = one;
    return count < most ? count + 1 : most;
}

static enum pen_status top_run(const struct answer *answer, const struct answer_step *step, struct answer_row *row,
                               struct pen_error *reterr)
{
    const struct answer_view *view = row_view(row, &step->top.from);
    float *scores = row_take(row, view->count, sizeof *scores, reterr);
    row->classes = row_take(row, step->top.k, sizeof *row->classes, reterr);
    (void)answer;
    if (!scores || !row->classes)
        return row_short(row);
    if (step->top.activation == ANSWER_SOFTMAX && view->count)
        answer_softmax(view->data, scores, view->count, 1);
    for (size_t i = 0; i < view->count; i++) {
        float score =
            step->top.activation == ANSWER_SOFTMAX ? scores[i] : answer_activate(view->data[i], step->top.activation);
        if (!isnan(score))
            row->classes_count = best_insert(row->classes, row->classes_count, step->top.k,
                                             (struct class_score){.index = i, .score = (double)score});
    }
    return PEN_OK;
}

static void top_defaults(struct answer_step *step)
{
    step->top.k = 5;
}

/* Numbers of a row of the output; -1: not known at load. */
static int64_t row_numbers(const struct answer *answer, uint32_t output)
{
    const struct pen_tensor *tensor = &answer->model_outputs[output];
    int64_t numbers = tensor->rank ? 1 : -1;
    for (uint32_t d = tensor->rank > 1 ? 1 : 0; d < tensor->rank && numbers >= 0; d++)
        numbers = tensor->dims[d] < 0 || tensor->dims[d] > INT32_MAX ? -1 : numbers * tensor->dims[d];
    return numbers;
}

static enum pen_status top_compile(struct answer_reader *reader, struct answer_step *step)
{
    struct answer *answer = reader->answer;
    int64_t numbers = row_numbers(answer, step->top.from.output[0]);
    if (numbers >= 0 && answer->labels_count && (int64_t)answer->labels_count != numbers)
        return reader_refuse(reader, PEN_ERR_SHAPE, "there are %zu labels, but output '%.128s' has %lld numbers a row",
                             answer->labels_count, answer->model_outputs[step->top.from.output[0]].name,
                             (long long)numbers);
    if (numbers >= 0 && step->top.k > numbers)
        step->top.k = numbers ? (uint32_t)numbers : 1;
    answer->classes_max = step->top.k;
    return PEN_OK;
}

static const struct answer_option top_options[] = {
    {.name = "output", .type = OPTION_SOURCE, .offset = offsetof(struct step_top, from), .needed = true},
    {.name = "k", .type = OPTION_WHOLE, .offset = offsetof(struct step_top, k), .min = 1, .max = ANSWER_CLASSES_MAX},
    {.name = "activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_top, activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = NULL},
};
const struct answer_kind kind_top_k = {.name = "top_k",
                                       .options = top_options,
                                       .defaults = top_defaults,
                                       .compile = top_compile,
                                       .run = top_run,
                                       .produces = ANSWER_CLASSES};
