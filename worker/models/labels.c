/* labels.c - selection of the few best by repeated scans: k is small, and nothing is allocated. */
#include "labels.h"

#include <math.h>
#include <stdio.h>

struct scores {
    const uint8_t *data; /* of the row */
    size_t count;
    enum pen_dtype dtype;
    struct labels_quant quant;
};

static float score_at(const struct scores *scores, size_t i)
{
    if (scores->dtype == PEN_DTYPE_F32)
        return ((const float *)(const void *)scores->data)[i];
    int32_t q = scores->dtype == PEN_DTYPE_U8 ? scores->data[i] : (int8_t)scores->data[i];
    return (float)(q - scores->quant.zero_point) * scores->quant.scale;
}

/* Is `a` at index i ahead of `b` at index j? NaN is behind everything; equal scores go by index. */
static bool ahead(float a, size_t i, float b, size_t j)
{
    if (isnan(b))
        return !isnan(a) || i < j;
    return a > b || (a == b && i < j);
}

/* The best element that is not ahead of the one found last. */
static size_t next_best(const struct scores *scores, size_t last)
{
    size_t best = SIZE_MAX;
    float before = last == SIZE_MAX ? 0 : score_at(scores, last), most = 0;
    for (size_t i = 0; i < scores->count; i++) {
        float score = score_at(scores, i);
        if (i == last || (last != SIZE_MAX && !ahead(before, last, score, i)))
            continue;
        if (best == SIZE_MAX || ahead(score, i, most, best)) {
            best = i;
            most = score;
        }
    }
    return best;
}

/* softmax_i = exp(x_i - max) / sum_j exp(x_j - max) */
static double softmax_sum(const struct scores *scores, float most)
{
    double sum = 0;
    for (size_t i = 0; i < scores->count; i++)
        sum += exp((double)score_at(scores, i) - (double)most);
    return sum;
}

static size_t row_write(const struct config *config, const struct scores *scores, uint32_t top,
                        struct label_text *texts, size_t room)
{
    size_t written = 0, last = SIZE_MAX;
    float most = 0;
    double sum = 1;
    while (written < top && written < room && written < scores->count) {
        last = next_best(scores, last);
        if (last == SIZE_MAX)
            break;
        float at_last = score_at(scores, last);
        if (written == 0 && config->softmax) {
            most = at_last;
            sum = softmax_sum(scores, most);
        }
        double score = config->softmax ? exp((double)at_last - (double)most) / sum : (double)at_last;
        char *text = texts[written++].text;
        if (last < config->labels_count)
            snprintf(text, LABEL_TEXT_BYTES, "%.4g %s", score, config->labels[last]);
        else
            snprintf(text, LABEL_TEXT_BYTES, "%.4g %zu", score, last);
    }
    return written;
}

size_t labels_write(const struct config *config, const struct pen_tensor *scores, const struct labels_quant *quant,
                    uint32_t rows, uint32_t top, struct label_text *ret_texts, size_t room)
{
    bool bytes = scores->dtype == PEN_DTYPE_U8 || scores->dtype == PEN_DTYPE_I8;
    size_t size = bytes ? 1 : sizeof(float), elements = scores->bytes / size, written = 0;
    if ((!bytes && scores->dtype != PEN_DTYPE_F32) || rows == 0 || elements == 0 || elements % rows != 0)
        return 0;
    struct scores row = {scores->data, elements / rows, scores->dtype, *quant}; /* [rows, count] */
    for (uint32_t i = 0; i < rows && written < room; i++, row.data += row.count * size)
        written += row_write(config, &row, top, ret_texts + written, room - written);
    return written;
}
