#include "annotate.h"

#include <string.h>

#include "tensor_codec.h"

#define CLASS_BYTES 20u /* per class, without its name: tags, lengths, index, score */
#define ROW_BYTES   24u /* per row, without the output's name */

void annotations_clear(struct annotations *a)
{
    a->classes_count = a->rows_count = a->bytes = 0;
}

static void class_add(struct annotations *a, const struct config *config, const struct class_score *best)
{
    Penstock__Class *class = &a->classes[a->classes_count];
    const char *name = best->index < config->labels_count ? config->labels[best->index] : "";
    penstock__class__init(class);
    class->index = (uint32_t)best->index;
    class->score = (float)best->score;
    class->name = meta_text(name);
    a->class_pointers[a->classes_count++] = class;
    a->bytes += CLASS_BYTES + strlen(name);
}

static void row_add(struct annotations *a, const struct served *served, const char *name,
                    const struct pen_tensor *scores, uint32_t row, size_t classes, size_t most)
{
    struct class_score best[CLASSES_MAX];
    Penstock__Annotation *annotation = &a->rows[a->rows_count];
    size_t kept = classes_best(scores, row * classes, classes, served->config.softmax ? CLASSES_SOFTMAX : CLASSES_AUTO,
                               &served->labels_quant, most, best);
    penstock__annotation__init(annotation);
    annotation->output = meta_text(name);
    annotation->row = row;
    annotation->classes = a->class_pointers + a->classes_count;
    annotation->n_classes = kept;
    a->row_pointers[a->rows_count++] = annotation;
    a->bytes += ROW_BYTES + strlen(name);
    for (size_t i = 0; i < kept; i++)
        class_add(a, &served->config, &best[i]);
}

/* How many of `most` classes per row fit, when that many took so many bytes. */
static size_t fewer(size_t most, size_t took, size_t room)
{
    size_t fit = most * room / took;
    return fit < most ? fit : most - 1;
}

void annotations_add(struct annotations *a, const struct served *served, const char *name,
                     const struct pen_tensor *scores, uint32_t job_rows, uint32_t top_k)
{
    size_t classes_before = a->classes_count, rows_before = a->rows_count, bytes_before = a->bytes;
    uint32_t rows = classes_rows(scores);
    size_t classes = job_rows > 1 && rows != job_rows ? 0 : classes_count(scores, rows, served->config.labels_count);
    size_t room = (CLASSES_MAX - a->classes_count) / rows, most = top_k < room ? top_k : room;
    while (classes > 0 && most > 0) {
        for (uint32_t row = 0; row < rows; row++)
            row_add(a, served, name, scores, row, classes, most);
        if (a->bytes <= ANNOTATE_BYTES_MAX)
            return;
        most = fewer(most, a->bytes - bytes_before, ANNOTATE_BYTES_MAX - bytes_before);
        a->classes_count = classes_before;
        a->rows_count = rows_before;
        a->bytes = bytes_before;
    }
}

void annotations_put(struct annotations *a, Penstock__ResultMeta *meta)
{
    meta->annotations = a->row_pointers;
    meta->n_annotations = a->rows_count;
}
