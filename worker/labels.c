/* labels.c - the text form of a result's best classes: parameter "labels". */
#include "labels.h"

#include <stdio.h>

static void text_write(const struct config *config, const struct class_score *best, char text[LABEL_TEXT_BYTES])
{
    if (best->index < config->labels_count)
        snprintf(text, LABEL_TEXT_BYTES, "%.4g %s", best->score, config->labels[best->index]);
    else
        snprintf(text, LABEL_TEXT_BYTES, "%.4g %zu", best->score, best->index);
}

size_t labels_write(const struct config *config, const struct pen_tensor *scores, const struct classes_quant *quant,
                    uint32_t rows, uint32_t top, struct label_text *ret_texts, size_t room)
{
    struct class_score best[LABELS_TEXTS_MAX];
    size_t one = 0, written = 0;
    if (pen_dtype_bytes(scores->dtype, 1, &one) != 0 || one == 0 || rows == 0 || scores->bytes / one % rows != 0)
        return 0;
    size_t count = scores->bytes / one / rows;
    room = room < LABELS_TEXTS_MAX ? room : LABELS_TEXTS_MAX;
    for (uint32_t row = 0; row < rows && written < room; row++) {
        size_t most = top < room - written ? top : room - written;
        size_t kept = classes_best(scores, row * count, count, config->softmax ? CLASSES_SOFTMAX : CLASSES_PLAIN, quant,
                                   most, best);
        for (size_t i = 0; i < kept; i++)
            text_write(config, &best[i], ret_texts[written++].text);
    }
    return written;
}
