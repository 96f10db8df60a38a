/* test_onnx_external.c - data of tensors in files beside the model. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/reference/evaluate.h"
#include "onnx_case.h"

static void entry(struct out *tensor, const char *key, const char *value)
{
    struct out e = {.size = 0};
    out_text(&e, 1, key);
    out_text(&e, 2, value);
    out_message(tensor, 13, &e);
}

static struct out external_graph(const char *location, const char *offset, const char *length)
{
    struct out graph = onnx_begin(), t = {.size = 0};
    out_varint(&t, 1, 3);
    out_varint(&t, 2, 1);
    out_text(&t, 8, "w");
    out_varint(&t, 14, 1);
    entry(&t, "location", location);
    if (offset)
        entry(&t, "offset", offset);
    if (length)
        entry(&t, "length", length);
    out_message(&graph, 5, &t);
    out_node(&graph, "Add", NULL, NAMES("x", "w"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    return graph;
}

static void make_folder(char *folder)
{
    char path[300];
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/w.bin", folder);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite((float[]){9, 1, 2, 3}, 4, 4, f), 4);
    (void)fclose(f);
    (void)snprintf(path, sizeof path, "%s/link.bin", folder);
    cr_assert_eq(symlink("w.bin", path), 0);
    (void)snprintf(path, sizeof path, "%s/fifo", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"w.bin", "link.bin", "fifo"};
    char path[300];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

TestSuite(external, .init = reference_evaluator_register);

Test(external, data_beside_the_model_is_mapped)
{
    char folder[] = "/tmp/penstock-external-XXXXXX";
    make_folder(folder);
    struct out graph = external_graph("w.bin", "4", "12");
    struct loaded l = onnx_load(&graph, 17, folder);
    cr_assert_eq(l.status, PEN_OK, "%s", l.error.text);
    cr_assert_eq(l.extra.file_count, 1);
    cr_assert_str_eq(l.extra.files[0].name, "w.bin");
    cr_assert_float_eq(((const float *)l.g->values[l.g->nodes[0].in[1]].data)[2], 3, 0);
    graph_free(l.g);
    import_extra_fini(&l.extra);
    remove_folder(folder);
}

Test(external, what_lies_outside_is_refused)
{
    char folder[] = "/tmp/penstock-external-XXXXXX";
    static const struct {
        const char *location, *offset, *length;
    } rows[] = {{"../w.bin", "0", "12"},
                {"/etc/passwd", "0", "12"},
                {"link.bin", "0", "12"},
                {"fifo", "0", "12"},
                {"nothing", "0", "12"},
                {"w.bin", "8", "12"},
                {"w.bin", "0", "8"},
                {"w.bin", "-4", "12"},
                {"", "0", "12"},
                {"./w.bin", "0", "12"},
                {"w.bin", "99999999999999999999", "12"}};
    make_folder(folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct out graph = external_graph(rows[i].location, rows[i].offset, rows[i].length);
        struct loaded l = onnx_load(&graph, 17, folder);
        cr_assert_neq(l.status, PEN_OK, "row %zu", i);
        cr_assert(l.error.text[0] != '\0');
    }
    struct out graph = external_graph("w.bin", "4", "12");
    struct loaded l = onnx_load(&graph, 17, NULL);
    cr_assert_eq(l.status, PEN_ERR_UNSUPPORTED, "no folder is known");
    remove_folder(folder);
}

Test(external, offsets_beyond_four_gigabytes_are_reached)
{
    char folder[] = "/tmp/penstock-external-XXXXXX", path[300], offset[32];
    const int64_t far = ((int64_t)9 << 29) + 4; /* 4.5 GiB */
    make_folder(folder);
    (void)snprintf(path, sizeof path, "%s/w.bin", folder);
    (void)snprintf(offset, sizeof offset, "%lld", (long long)far);
    FILE *f = fopen(path, "r+b"); /* a file with a hole: nothing lies on the disk */
    cr_assert(f && fseeko(f, far, SEEK_SET) == 0 && fwrite((float[]){5, 6, 7}, 4, 3, f) == 3 && fclose(f) == 0);
    struct out graph = external_graph("w.bin", offset, "12");
    struct loaded l = onnx_load(&graph, 17, folder);
    cr_assert_eq(l.status, PEN_ERR_TOO_LARGE, "the budget counts whole files");
    struct graph_limits limits = graph_limits_default();
    static struct out model;
    limits.model_bytes = (uint64_t)8 << 30;
    model.size = 0;
    out_model(&model, 17, &graph);
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    cr_assert_eq(onnx_read(model.bytes, model.size, folder, &limits, &g, &extra, &error), PEN_OK, "%s", error.text);
    cr_assert_float_eq(((const float *)g->values[g->nodes[0].in[1]].data)[2], 7, 0);
    graph_free(g);
    import_extra_fini(&extra);
    remove_folder(folder);
}
