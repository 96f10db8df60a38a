/* The classes of a result: rows, names, caps. */
#include "annotate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *names[] = {(char[]){"zero"}, (char[]){"one"}, (char[]){"two"}};
static struct served served = {.config = {.labels = names, .labels_count = 3}};
static struct annotations *a;

static void setup(void)
{
    a = calloc(1, sizeof *a);
    cr_assert_not_null(a);
}

static void teardown(void)
{
    free(a);
}

TestSuite(annotate, .init = setup, .fini = teardown);

static struct pen_tensor scores_of(const float *values, int64_t rows, int64_t classes)
{
    return (struct pen_tensor){.name = "y",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 2,
                               .dims = {rows, classes},
                               .data = values,
                               .bytes = (size_t)(rows * classes) * sizeof(float)};
}

Test(annotate, every_row_has_its_best_classes)
{
    const float values[] = {0.1f, 0.7f, 0.2f, 9, 9, 10};
    struct pen_tensor scores = scores_of(values, 2, 3);
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    annotations_add(a, &served, "whole", &scores, 2, 2);
    annotations_put(a, &meta);
    cr_assert_eq(meta.n_annotations, 2);
    const Penstock__Annotation *first = meta.annotations[0], *second = meta.annotations[1];
    cr_expect(strcmp(first->output, "whole") == 0 && first->row == 0 && second->row == 1);
    cr_assert(first->n_classes == 2 && second->n_classes == 2);
    cr_expect(first->classes[0]->index == 1 && first->classes[0]->score == 0.7f);
    cr_expect_str_eq(first->classes[0]->name, "one");
    cr_expect_str_eq(first->classes[1]->name, "two");
    cr_expect_str_eq(second->classes[0]->name, "two");
    cr_expect_lt(second->classes[0]->score, 1.0f, "logits go through softmax");
    annotations_clear(a);
    annotations_put(a, &meta);
    cr_expect_eq(meta.n_annotations, 0);
}

Test(annotate, other_outputs_have_no_classes)
{
    const float values[12] = {0};
    struct pen_tensor map = scores_of(values, 1, 12), rows = scores_of(values, 4, 3);
    map.rank = 4;
    map.dims[1] = map.dims[2] = 2;
    map.dims[3] = 3;
    annotations_add(a, &served, "y", &map, 1, 3);
    annotations_add(a, &served, "y", &rows, 3, 3);
    cr_expect_eq(a->rows_count, 0);
    annotations_add(a, &served, "y", &rows, 1, 3); /* rows of a model that makes no batches */
    cr_expect_eq(a->rows_count, 4);
}

Test(annotate, caps_cut_every_row_alike)
{
    enum { ROWS = 16, CLASSES = 2000 };
    static float values[ROWS * CLASSES];
    struct pen_tensor scores = scores_of(values, ROWS, CLASSES);
    annotations_add(a, &served, "y", &scores, ROWS, 1000);
    cr_assert_eq(a->rows_count, ROWS);
    cr_expect(a->classes_count <= CLASSES_MAX && a->classes_count == ROWS * a->rows[0].n_classes);
    cr_expect_eq(a->rows[ROWS - 1].n_classes, CLASSES_MAX / ROWS);
    annotations_clear(a);
    char *long_names[CLASSES], name[257];
    memset(name, 'x', 256);
    name[256] = '\0';
    for (size_t i = 0; i < CLASSES; i++)
        long_names[i] = name;
    struct served wordy = {.config = {.labels = long_names, .labels_count = CLASSES}};
    scores = scores_of(values, 1, CLASSES);
    annotations_add(a, &wordy, "y", &scores, 1, 1000);
    cr_expect(a->rows_count == 1 && a->classes_count > 100 && a->bytes <= ANNOTATE_BYTES_MAX, "%zu classes, %zu bytes",
              a->classes_count, a->bytes);
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    annotations_put(a, &meta);
    cr_expect_leq(penstock__result_meta__get_packed_size(&meta), a->bytes);
    size_t classes = 10, before = 0;
    annotations_clear(a);
    annotations_add(a, &wordy, "y", &scores, 1, (uint32_t)classes);
    before = a->bytes;
    annotations_add(a, &wordy, "z", &scores, 1, 990); /* beside another output: what is left of the room */
    cr_expect(a->rows_count == 2 && a->rows[0].n_classes == classes && a->bytes <= ANNOTATE_BYTES_MAX);
    cr_expect(a->rows[1].n_classes > 90 && a->classes_count == classes + a->rows[1].n_classes,
              "%zu classes, %zu bytes of which %zu were there", a->rows[1].n_classes, a->bytes, before);
    annotations_clear(a);
    scores = scores_of(values, ROWS * CLASSES / 2, 2);
    annotations_add(a, &served, "y", &scores, 1, 1);
    cr_expect_eq(a->rows_count, 0, "more rows than classes can be told");
}
