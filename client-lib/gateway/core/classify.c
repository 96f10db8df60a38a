/* classify.c - inference_classify: the best classes of each row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "classes.h"
#include "inference.h"

struct ranked {
    double score;
    uint64_t whole; /* tensor_whole; 0 of fractions */
    uint32_t index;
};

static struct ranked element(const struct pen_tensor *tensor, size_t at, uint32_t index)
{
    const bool whole = number_form(tensor->dtype) != NUMBER_FRACTION;
    return (struct ranked){tensor_value(tensor, at), whole ? tensor_whole(tensor, at) : 0, index};
}

/* The best first; among equals the first; NaN last. */
static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    bool x_nan = isnan(x->score), y_nan = isnan(y->score);
    if (x_nan != y_nan)
        return x_nan ? 1 : -1;
    if (!x_nan && (x->score > y->score || x->score < y->score))
        return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole) /* as doubles they are equal, so they have one sign */
        return x->whole > y->whole ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The score as Triton writes it: whole numbers without a point. */
static void write_score(const struct ranked *ranked, enum number_form form, struct bytes *to)
{
    if (form == NUMBER_SIGNED)
        bytes_signed(to, (int64_t)ranked->whole);
    else if (form == NUMBER_UNSIGNED)
        bytes_unsigned(to, ranked->whole);
    else
        bytes_format(to, "%f", ranked->score);
}

static void write_row(const struct ranked *ranked, uint32_t count, enum number_form form, const struct pen_model *model,
                      struct bytes *to)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *label = model && ranked[i].index < model->labels_count ? model->labels[ranked[i].index] : "";
        uint32_t length = 0;
        bytes_add(to, &length, sizeof length);
        size_t begin = to->used;
        write_score(&ranked[i], form, to);
        bytes_format(to, ":%u%s%s", ranked[i].index, *label ? ":" : "", label);
        if (to->failed)
            return;
        length = (uint32_t)(to->used - begin);
        memcpy(to->data + begin - sizeof length, &length, sizeof length);
    }
}

enum pen_status inference_classify(const struct pen_tensor *tensor, uint32_t classes, bool batched,
                                   const struct pen_model *model, struct hold *hold, struct pen_tensor *ret_tensor,
                                   struct pen_error *reterr)
{
    uint64_t elements = 0;
    if (number_form(tensor->dtype) == NUMBER_NONE || pen_tensor_elements(tensor, &elements) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "output %s has no numbers to be classified by", tensor->name);
    bool rowed = batched && tensor->rank > 1;
    uint64_t rows = rowed ? (uint64_t)tensor->dims[0] : 1, width = rows ? elements / rows : 0;
    uint32_t count = classes < width ? classes : (uint32_t)width;
    struct ranked *ranked = malloc((size_t)(width ? width : 1) * sizeof *ranked);
    struct bytes text = {.data = NULL};
    for (uint64_t row = 0; ranked && row < rows && count; row++) {
        for (uint64_t i = 0; i < width; i++)
            ranked[i] = element(tensor, (size_t)(row * width + i), (uint32_t)i);
        qsort(ranked, (size_t)width, sizeof *ranked, by_score);
        write_row(ranked, count, number_form(tensor->dtype), model, &text);
    }
    char *data = ranked && !text.failed ? hold_take(hold, text.used + 1) : NULL;
    if (data && text.used)
        memcpy(data, text.data, text.used);
    *ret_tensor = (struct pen_tensor){
        .name = tensor->name, .dtype = PEN_DTYPE_STRING, .rank = rowed ? 2 : 1, .data = data, .bytes = text.used};
    ret_tensor->dims[0] = rowed ? (int64_t)rows : (int64_t)count;
    ret_tensor->dims[1] = (int64_t)count;
    bytes_fini(&text);
    free(ranked);
    return data ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to classify output %s", tensor->name);
}
