/* labels.c - selection of the few best by repeated scans: k is small, and nothing is allocated. */
#include "labels.h"

#include <math.h>
#include <stdio.h>

/* Is `a` at index i ahead of `b` at index j? NaN is behind everything; equal scores go by index. */
static bool ahead(float a, size_t i, float b, size_t j)
{
    if (isnan(b))
        return !isnan(a) || i < j;
    return a > b || (a == b && i < j);
}

/* The best element that is not ahead of the one found last. */
static size_t next_best(const float *scores, size_t count, size_t last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (i == last || (last != SIZE_MAX && !ahead(scores[last], last, scores[i], i)))
            continue;
        if (best == SIZE_MAX || ahead(scores[i], i, scores[best], best))
            best = i;
    }
    return best;
}

/* softmax_i = exp(x_i - max) / sum_j exp(x_j - max) */
static double softmax_sum(const float *scores, size_t count, float most)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += exp((double)scores[i] - (double)most);
    return sum;
}

static size_t row_write(const struct config *config, const float *scores, size_t count, uint32_t top,
                        struct label_text *texts, size_t room)
{
    size_t written = 0, last = SIZE_MAX;
    float most = 0;
    double sum = 1;
    while (written < top && written < room && written < count) {
        last = next_best(scores, count, last);
        if (last == SIZE_MAX)
            break;
        if (written == 0 && config->softmax) {
            most = scores[last];
            sum = softmax_sum(scores, count, most);
        }
        double score = config->softmax ? exp((double)scores[last] - (double)most) / sum : (double)scores[last];
        char *text = texts[written++].text;
        if (last < config->labels_count)
            snprintf(text, LABEL_TEXT_BYTES, "%.4g %s", score, config->labels[last]);
        else
            snprintf(text, LABEL_TEXT_BYTES, "%.4g %zu", score, last);
    }
    return written;
}

size_t labels_write(const struct config *config, const struct pen_tensor *scores, uint32_t rows, uint32_t top,
                    struct label_text *ret_texts, size_t room)
{
    size_t elements = scores->bytes / sizeof(float), written = 0;
    if (scores->dtype != PEN_DTYPE_F32 || rows == 0 || elements == 0 || elements % rows != 0)
        return 0;
    size_t count = elements / rows;
    const float *values = scores->data; /* [rows, count] */
    for (uint32_t row = 0; row < rows && written < room; row++)
        written += row_write(config, values + row * count, count, top, ret_texts + written, room - written);
    return written;
}
