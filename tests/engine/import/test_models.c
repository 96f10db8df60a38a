/* Real files: each reads or is refused by name, and each pass keeps the numbers of whole models. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build.h"
#include "backend/reference/evaluate.h"
#include "graph/pass.h"
#include "import/importer.h"

struct file {
    void *data;
    size_t bytes;
    struct graph *g;
    struct import_extra extra;
    struct pen_error error;
};

static bool file_map(const char *path, struct file *f)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    cr_assert_eq(fstat(fd, &info), 0);
    f->bytes = (size_t)info.st_size;
    f->data = mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    cr_assert_neq(f->data, MAP_FAILED);
    (void)close(fd);
    return true;
}

static enum pen_status file_read(const char *path, struct file *f)
{
    memset(f, 0, sizeof *f);
    if (!file_map(path, f))
        return PEN_ERR_NOT_FOUND;
    reference_evaluator_register();
    return onnx_read(f->data, f->bytes, NULL, NULL, &f->g, &f->extra, &f->error);
}

static void file_close(struct file *f)
{
    graph_free(f->g);
    import_extra_fini(&f->extra);
    if (f->data)
        (void)munmap(f->data, f->bytes);
}

/* Reads and optimises every folder's model.onnx; the number read. */
static unsigned read_all(const char *parent)
{
    static const struct pass_options all = {.fold = true, .fuse = true, .nhwc = true};
    DIR *dir = opendir(parent);
    unsigned count = 0;
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[600];
        struct file f;
        (void)snprintf(path, sizeof path, "%s/%.255s/model.onnx", parent, e->d_name);
        if (e->d_name[0] == '.' || access(path, R_OK) != 0)
            continue;
        enum pen_status status = file_read(path, &f);
        if (status == PEN_OK)
            cr_expect_eq(pass_run(f.g, &all, NULL, &f.error), PEN_OK, "%s: %s", path, f.error.text);
        else
            cr_expect_eq(status, PEN_ERR_UNSUPPORTED, "%s: %s", path, f.error.text);
        count += status == PEN_OK;
        file_close(&f);
    }
    (void)closedir(dir);
    return count;
}

Test(models, every_real_model_reads_and_optimises)
{
    unsigned count = read_all(PENSTOCK_SHARED "/models/onnx");
    if (count == 0)
        cr_skip_test("no models in " PENSTOCK_SHARED);
    cr_assert_eq(count, 12);
}

Test(models, every_conformance_model_reads_or_is_refused_by_name)
{
    unsigned count = read_all(PENSTOCK_SHARED "/conformance/onnx/node");
    if (count == 0)
        cr_skip_test("no conformance cases in " PENSTOCK_SHARED);
    cr_assert_gt(count, 1200);
}

/* A model on patterned inputs, plain and with each set of passes. */
static void same_numbers(const char *name)
{
    static const struct pass_options sets[] = {
        {.fold = true}, {.fuse = true}, {.nhwc = true}, {.fold = true, .fuse = true, .nhwc = true}};
    char path[600];
    struct file plain;
    (void)snprintf(path, sizeof path, PENSTOCK_SHARED "/models/onnx/%s/model.onnx", name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no %s", path);
    cr_assert_eq(file_read(path, &plain), PEN_OK, "%s", plain.error.text);
    struct shape_env *want = run_graph(plain.g);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct file f;
        cr_assert_eq(file_read(path, &f), PEN_OK);
        cr_assert_eq(pass_run(f.g, &sets[i], NULL, &f.error), PEN_OK, "%s", f.error.text);
        struct shape_env *got = run_graph(f.g);
        double difference = compare_outputs(want, got);
        cr_expect_leq(difference, 1e-5, "%s with pass set %zu differs by %g", name, i, difference);
        for (uint32_t k = 0; k < f.g->output_count; k++)
            cr_expect_str_eq(f.g->values[f.g->outputs[k]].name, plain.g->values[plain.g->outputs[k]].name);
        shape_env_free(got);
        file_close(&f);
    }
    shape_env_free(want);
    file_close(&plain);
}

Test(models, passes_keep_the_numbers_of_mnist_8)
{
    same_numbers("mnist_8");
}

Test(models, passes_keep_the_numbers_of_mnist_bn_gemm)
{
    same_numbers("mnist_bn_gemm");
}

Test(models, passes_keep_the_numbers_of_ultraface)
{
    same_numbers("ultraface_rfb320");
}

Test(models, passes_keep_the_numbers_of_blazeface)
{
    same_numbers("blazeface_front");
}

Test(models, passes_keep_the_numbers_of_dtln)
{
    same_numbers("dtln_1");
}
