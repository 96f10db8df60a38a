/*
 * labels.h - "0.931 nine": the highest scores of an output with the names of the classes from config.json.
 *
 * Threads: any (pure functions over the caller's memory).
 */
#ifndef LABELS_H
#define LABELS_H

#include "served.h"

#define LABELS_TEXTS_MAX 256u /* in one result, over all its rows */
#define LABEL_TEXT_BYTES (CONFIG_LABEL_BYTES_MAX + 16u)

struct label_text {
    char text[LABEL_TEXT_BYTES];
};

/*
 * Writes the `top` best of each of `rows` rows of `scores` (floats, u8 or i8, `rows` equal parts), best first, into ret_texts[room]. Scores are what the model
 * gives, or their softmax when the config says so. NaN counts as least. Returns the number written, at most LABELS_TEXTS_MAX: 0 when the tensor is of another type or
 * does not divide by rows. quant is looked at for u8 and i8 only.
 */
size_t labels_write(const struct config *config, const struct pen_tensor *scores, const struct classes_quant *quant,
                    uint32_t rows, uint32_t top, struct label_text *ret_texts, size_t room);

#endif
