/* What a model takes and gives: the offer's own tensors, a job's inputs against them, and a result's outputs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "signature.h"

enum { SIGS_MAX = 66 };

static struct pen_error error;
static struct signature *signature;

static void end(void)
{
    signature_release(signature);
    signature = NULL;
}

TestSuite(signature, .fini = end);

/* One tensor of an offer, in short. */
struct sig {
    const char *name;
    uint32_t dtype;
    size_t rank;
    int64_t dims[PEN_MAX_RANK + 1];
    bool batched, optional, pictures;
};

static enum pen_status offered(const struct sig *inputs, size_t inputs_count, const struct sig *outputs,
                               size_t outputs_count, struct signature **ret_signature)
{
    static Penstock__TensorSig sigs[2][SIGS_MAX];
    static Penstock__TensorSig *list[2][SIGS_MAX];
    const struct sig *from[2] = {inputs, outputs};
    const size_t counts[2] = {inputs_count, outputs_count};
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < counts[side]; i++) {
            const struct sig *s = &from[side][i];
            Penstock__TensorSig *to = list[side][i] = &sigs[side][i];
            penstock__tensor_sig__init(to);
            to->name = (char *)(uintptr_t)s->name;
            to->dtype = s->dtype;
            to->n_dims = s->rank;
            to->dims = (int64_t *)(uintptr_t)s->dims;
            to->batched = s->batched;
            to->optional = s->optional;
            to->pictures = s->pictures;
        }
    }
    error = (struct pen_error){.status = PEN_OK};
    return signature_new(list[0], inputs_count, list[1], outputs_count, ret_signature, &error);
}

static const struct sig image = {"image", PEN_DTYPE_F32, 3, .dims = {-1, 8, -1}, .batched = true},
                        mask = {"mask", PEN_DTYPE_U8, 2, .dims = {-1, 4}, .batched = true, .optional = true},
                        scale = {"scale", PEN_DTYPE_F32, 0, .dims = {0}, .batched = true},
                        scores = {"scores", PEN_DTYPE_F32, 2, .dims = {-1, 10}, .batched = true},
                        loose = {"loose", PEN_DTYPE_I64, 0, .dims = {0}},
                        fixed = {"fixed", PEN_DTYPE_U8, 2, .dims = {3, -1}};

static void open_usual(void)
{
    const struct sig inputs[] = {image, mask, scale}, outputs[] = {scores, loose, fixed};
    cr_assert_eq(offered(inputs, 3, outputs, 3, &signature), PEN_OK, "%s", error.text);
}

static struct pen_tensor tensor(const char *name, enum pen_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    return (struct pen_tensor){.name = name, .dtype = dtype, .rank = rank, .dims = {a, b, c}};
}

#define F32 PEN_DTYPE_F32
#define U8  PEN_DTYPE_U8

/* ---- the offer ---- */

Test(signature, is_refused_where_the_offers_tensors_make_no_sense)
{
    static char longest[257], longer[258];
    static struct sig many[SIGS_MAX];
    memset(longest, 'n', 255);
    memset(longer, 'n', 256);
    for (size_t i = 0; i < SIGS_MAX; i++)
        many[i] = scale;
    const struct sig nameless = {"", F32, 0, .dims = {0}}, just = {longest, F32, 0, .dims = {0}},
                     beyond = {longer, F32, 0, .dims = {0}},
                     deepest = {"deep", F32, PEN_MAX_RANK, .dims = {1, 2, 3, 4, 5, 6, 7, 8}},
                     deeper = {"deep", F32, PEN_MAX_RANK + 1, .dims = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
    const struct {
        const struct sig *sigs;
        size_t count;
        const char *text; /* NULL: it is taken */
    } cases[] = {
        {NULL, 0, NULL},     {&nameless, 1, "a tensor of the offer has a name of 0 bytes; 1 to 255 are allowed"},
        {&just, 1, NULL},    {&beyond, 1, "a tensor of the offer has a name of 256 bytes; 1 to 255 are allowed"},
        {&deepest, 1, NULL}, {&deeper, 1, "tensor 'deep' of the offer has rank 9; at most 8 is allowed"},
        {many, 64, NULL},    {many, 65, "the offer has 65 tensors; at most 64 are allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int side = 0; side < 2; side++) {
            struct signature *made = NULL;
            enum pen_status status = side == 0 ? offered(cases[i].sigs, cases[i].count, &scale, 1, &made)
                                               : offered(&scale, 1, cases[i].sigs, cases[i].count, &made);
            cr_expect_eq(status, cases[i].text ? PEN_ERR_INVALID : PEN_OK, "case %zu, %d", i, side);
            cr_expect_str_eq(error.text, cases[i].text ? cases[i].text : "", "case %zu, %d", i, side);
            if (status == PEN_OK) {
                const struct signature *s = made;
                cr_expect_eq(side == 0 ? s->inputs_count : s->outputs_count, cases[i].count);
                cr_expect_eq(side == 0 ? s->outputs_count : s->inputs_count, 1u);
                if (cases[i].count == 1)
                    cr_expect_str_eq((side == 0 ? s->inputs : s->outputs)[0].name, cases[i].sigs->name);
            }
            signature_release(made);
        }
    }
}

Test(signature, has_what_the_offer_says)
{
    open_usual();
    const struct tensor_sig *in = signature->inputs;
    cr_expect(in[0].dtype == F32 && in[0].rank == 3 && in[0].batched && !in[0].optional && !in[0].pictures);
    cr_expect(in[0].dims[0] == -1 && in[0].dims[1] == 8 && in[0].dims[2] == -1);
    cr_expect(in[1].optional && in[1].batched);
    cr_expect(!in[2].batched, "a scalar has no batch");
    cr_expect_str_eq(signature->outputs[2].name, "fixed");
}

Test(signature, equals_another_only_in_all_that_it_says)
{
    const struct sig other[] = {
        {"imagf", F32, 3, .dims = {-1, 8, -1}, .batched = true},
        {"image", U8, 3, .dims = {-1, 8, -1}, .batched = true},
        {"image", F32, 2, .dims = {-1, 8}, .batched = true},
        {"image", F32, 3, .dims = {-1, 9, -1}, .batched = true},
        {"image", F32, 3, .dims = {-1, 8, -1}, .batched = false},
        {"image", F32, 3, .dims = {-1, 8, -1}, .batched = true, .optional = true},
        {"image", F32, 3, .dims = {-1, 8, -1}, .batched = true, .pictures = true},
    };
    const struct sig two[] = {scale, image};
    struct signature *same = NULL;
    cr_assert_eq(offered(two, 2, two, 2, &signature), PEN_OK);
    cr_assert_eq(offered(two, 2, two, 2, &same), PEN_OK);
    cr_expect(signature_equal(signature, same) && signature_equal(same, signature));
    signature_release(same);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const struct sig changed[] = {scale, other[i]};
        struct signature *made = NULL;
        cr_assert_eq(offered(changed, 2, two, 2, &made), PEN_OK);
        cr_expect(!signature_equal(signature, made), "input, case %zu", i);
        signature_release(made);
        cr_assert_eq(offered(two, 2, changed, 2, &made), PEN_OK);
        cr_expect(!signature_equal(signature, made), "output, case %zu", i);
        signature_release(made);
    }
    for (size_t inputs = 1; inputs <= 2; inputs++) {
        struct signature *made = NULL;
        cr_assert_eq(offered(two, inputs, two, 3 - inputs, &made), PEN_OK);
        cr_expect(!signature_equal(signature, made));
        signature_release(made);
    }
}

Test(signature, lives_as_long_as_its_last_user)
{
    open_usual();
    cr_expect_eq(signature->users, 1u);
    cr_expect_eq(signature_retain(signature), signature);
    signature_release(signature);
    cr_expect_eq(signature->users, 1u);
    cr_expect_str_eq(signature->inputs[0].name, "image");
    signature_release(NULL);
}

/* ---- a job's inputs ---- */

struct asked {
    struct pen_tensor tensors[3];
    size_t count;
    uint32_t rows_max;
    enum pen_status status;
    uint32_t rows;
    const char *text;
};

Test(signature, takes_inputs_that_fit_and_names_those_that_do_not)
{
    const struct pen_tensor one = tensor("scale", F32, 0, 0, 0, 0);
    const struct asked cases[] = {
        {{tensor("image", F32, 3, 2, 8, 5), one}, 2, 4, PEN_OK, 2, ""},
        {{one, tensor("image", F32, 3, 4, 8, 5)}, 2, 4, PEN_OK, 4, ""},
        {{tensor("image", F32, 3, 2, 8, 5), tensor("mask", U8, 2, 2, 4, 0), one}, 3, 4, PEN_OK, 2, ""},
        {{tensor("image", F32, 3, 2, 8, 5)}, 1, 4, PEN_ERR_INVALID, 0, "input 'scale' of model 'net' is missing"},
        {{one}, 1, 4, PEN_ERR_INVALID, 0, "input 'image' of model 'net' is missing"},
        {{tensor("imag", F32, 3, 2, 8, 5), one},
         2,
         4,
         PEN_ERR_NOT_FOUND,
         0,
         "model 'net' has no input 'imag', it takes: image, mask, scale"},
        {{tensor("image", U8, 3, 2, 8, 5), one},
         2,
         4,
         PEN_ERR_DTYPE,
         0,
         "input 'image' of model 'net' has element type u8, expected f32"},
        {{tensor("image", F32, 2, 2, 8, 0), one},
         2,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'image' of model 'net' has shape 2x8, expected ?x8x? (the first is the batch)"},
        {{tensor("image", F32, 3, 2, 7, 5), one},
         2,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'image' of model 'net' has shape 2x7x5, expected ?x8x? (the first is the batch)"},
        {{tensor("image", F32, 3, 0, 8, 5), one},
         2,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'image' of model 'net' has a batch of 0, expected 1 to 4"},
        {{tensor("image", F32, 3, 1, 8, 5), one}, 2, 4, PEN_OK, 1, ""},
        {{tensor("image", F32, 3, 5, 8, 5), one},
         2,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'image' of model 'net' has a batch of 5, expected 1 to 4"},
        {{tensor("image", F32, 3, 2, 8, 5), tensor("mask", U8, 2, 3, 4, 0), one},
         3,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'mask' of model 'net' has a batch of 3, but another input has one of 2"},
        {{tensor("image", F32, 3, 5, 8, 5), one},
         2,
         0,
         PEN_OK,
         1,
         ""}, /* no batches: the first dim is open as others are */
        {{tensor("image", F32, 3, 2, 8, 5), tensor("scale", F32, 1, 1, 0, 0)},
         2,
         4,
         PEN_ERR_SHAPE,
         0,
         "input 'scale' of model 'net' has shape 1, expected scalar"},
    };
    open_usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t rows = 0;
        uint64_t shape = 0;
        error = (struct pen_error){.status = PEN_OK};
        enum pen_status status = signature_check(signature, "net", cases[i].rows_max, cases[i].tensors, cases[i].count,
                                                 &rows, &shape, &error);
        cr_expect_eq(status, cases[i].status, "case %zu: %s", i, error.text);
        cr_expect_eq(rows, cases[i].rows, "case %zu: %u rows", i, rows);
        cr_expect_str_eq(error.text, cases[i].text, "case %zu", i);
    }
}

static uint64_t shape_of(const struct pen_tensor *tensors, size_t count, uint32_t rows_max)
{
    uint32_t rows = 0;
    uint64_t shape = 0;
    cr_assert_eq(signature_check(signature, "net", rows_max, tensors, count, &rows, &shape, &error), PEN_OK, "%s",
                 error.text);
    return shape;
}

Test(signature, jobs_of_equal_dims_beside_the_batch_have_one_shape)
{
    const struct pen_tensor one = tensor("scale", F32, 0, 0, 0, 0);
    const struct pen_tensor usual[] = {tensor("image", F32, 3, 2, 8, 5), one},
                            more[] = {one, tensor("image", F32, 3, 4, 8, 5)},
                            wider[] = {tensor("image", F32, 3, 2, 8, 6), one},
                            masked[] = {tensor("image", F32, 3, 2, 8, 5), tensor("mask", U8, 2, 2, 4, 0), one};
    open_usual();
    uint64_t shape = shape_of(usual, 2, 4);
    cr_expect_eq(shape_of(more, 2, 4), shape, "neither the batch nor the order counts");
    cr_expect_neq(shape_of(wider, 2, 4), shape);
    cr_expect_neq(shape_of(masked, 3, 4), shape, "an optional input that is there");
    cr_expect_neq(shape_of(usual, 2, 0), shape_of(more, 2, 0), "without batches the first dim is one as others");
}

Test(signature, files_of_pictures_stand_in_the_place_of_the_plain_tensor)
{
    const struct sig pictures = {"image", F32, 4, .dims = {-1, 8, 8, 3}, .batched = true, .pictures = true};
    const struct pen_tensor text[] = {tensor("image", PEN_DTYPE_STRING, 1, 3, 0, 0)},
                            more[] = {tensor("image", PEN_DTYPE_STRING, 1, 4, 0, 0)},
                            file[] = {tensor("image", U8, 1, 70000, 0, 0)},
                            larger[] = {tensor("image", U8, 1, 80000, 0, 0)},
                            other[] = {tensor("image", F32, 1, 3, 0, 0)}, flat[] = {tensor("image", U8, 2, 3, 3, 0)};
    uint32_t rows = 0;
    uint64_t shape = 0;
    cr_assert_eq(offered(&pictures, 1, &scores, 1, &signature), PEN_OK);
    cr_assert_eq(signature_check(signature, "net", 4, text, 1, &rows, &shape, &error), PEN_OK);
    cr_expect_eq(rows, 3u);
    cr_assert_eq(signature_check(signature, "net", 4, file, 1, &rows, &shape, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(rows, 1u, "bytes of one file");
    cr_expect(shape_of(text, 1, 4) == shape && shape_of(more, 1, 4) == shape && shape_of(larger, 1, 4) == shape,
              "sizes of files are no shape");
    cr_expect_eq(signature_check(signature, "net", 2, text, 1, &rows, &shape, &error), PEN_ERR_SHAPE);
    cr_expect_eq(signature_check(signature, "net", 0, text, 1, &rows, &shape, &error), PEN_OK);
    cr_expect_eq(signature_check(signature, "net", 4, other, 1, &rows, &shape, &error), PEN_ERR_SHAPE);
    cr_expect_eq(signature_check(signature, "net", 4, flat, 1, &rows, &shape, &error), PEN_ERR_DTYPE);
    end();
    const struct sig plain = {"image", F32, 4, .dims = {-1, 8, 8, 3}, .batched = true};
    cr_assert_eq(offered(&plain, 1, &scores, 1, &signature), PEN_OK);
    cr_expect_eq(signature_check(signature, "net", 4, text, 1, &rows, &shape, &error), PEN_ERR_DTYPE);
    cr_expect_eq(signature_check(signature, "net", 4, file, 1, &rows, &shape, &error), PEN_ERR_DTYPE);
}

Test(signature, a_list_of_names_is_cut_where_the_sentence_is_full)
{
    static char names[64][8];
    static struct sig many[64];
    for (size_t i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "in%04zu", i);
        many[i] = (struct sig){names[i], F32, 0, .dims = {0}};
    }
    const struct pen_tensor wrong[] = {tensor("wrong", F32, 0, 0, 0, 0)};
    uint32_t rows = 0;
    uint64_t shape = 0;
    cr_assert_eq(offered(many, 64, &scores, 1, &signature), PEN_OK);
    cr_expect_eq(signature_check(signature, "net", 0, wrong, 1, &rows, &shape, &error), PEN_ERR_NOT_FOUND);
    const char *list = strstr(error.text, "it takes: ");
    cr_assert_not_null(list);
    list += strlen("it takes: ");
    cr_expect(strncmp(list, "in0000, in0001, ", 16) == 0, "%s", list);
    cr_expect_eq(strlen(list), 31 * 8 + 6u, "as many as 255 bytes have room for: %s", list);
}

/* ---- results ---- */

Test(signature, outputs_that_are_asked_for_must_be_there)
{
    char *const good[] = {(char *)(uintptr_t) "fixed", (char *)(uintptr_t) "scores"}, *const bad[] = {
                                                                                          (char *)(uintptr_t) "scores",
                                                                                          (char *)(uintptr_t) "score"};
    open_usual();
    cr_expect_eq(signature_check_outputs(signature, "net", good, 2, &error), PEN_OK);
    cr_expect_eq(signature_check_outputs(signature, "net", bad, 1, &error), PEN_OK);
    cr_expect_eq(signature_check_outputs(signature, "net", bad, 2, &error), PEN_ERR_NOT_FOUND);
    cr_expect_str_eq(error.text, "model 'net' has no output 'score', it gives: scores, loose, fixed");
    static const struct {
        const char *name;
        size_t bytes, at;
    } cases[] = {{"scores", 6, 0}, {"scoresX", 6, 0}, {"loose", 5, 1}, {"fixed", 5, 2},
                 {"scores", 5, 3}, {"scoresX", 7, 3}, {"", 0, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(signature_output(signature, cases[i].name, cases[i].bytes), cases[i].at, "case %zu", i);
}

Test(signature, a_results_output_has_the_dims_of_the_signature_and_comes_once)
{
    const struct {
        size_t at;
        bool crops;
        struct pen_tensor output;
        const char *text; /* "" = it is taken */
    } cases[] = {
        {0, false, tensor("scores", F32, 2, 7, 10, 0), ""}, /* the batch is looked at elsewhere */
        {0, false, tensor("scores", F32, 2, 7, 11, 0), "output 'scores' has shape 7x11, the model gives ?x10"},
        {0, false, tensor("scores", F32, 1, 10, 0, 0), "output 'scores' has shape 10, the model gives ?x10"},
        {0, false, tensor("scores", U8, 2, 7, 10, 0), "output 'scores' has element type u8, the model gives f32"},
        {1, false, tensor("loose", PEN_DTYPE_I64, 3, 1, 2, 3), ""}, /* the rank is not known */
        {2, false, tensor("fixed", U8, 2, 3, 99, 0), ""},
        {2, false, tensor("fixed", U8, 2, 4, 99, 0), "output 'fixed' has shape 4x99, the model gives 3x?"},
        {2, true, tensor("fixed", U8, 2, 4, 99, 0), ""}, /* as many as there were crops */
    };
    open_usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t asked = 7;
        error = (struct pen_error){.status = PEN_OK};
        enum pen_status status =
            signature_check_output(signature, cases[i].at, cases[i].crops, &asked, &cases[i].output, &error);
        cr_expect_eq(status, cases[i].text[0] ? PEN_ERR_CORRUPT : PEN_OK, "case %zu", i);
        cr_expect_str_eq(error.text, cases[i].text, "case %zu", i);
        cr_expect_eq(asked, 7u & ~(1u << cases[i].at));
    }
    uint64_t asked = 5;
    cr_expect_eq(signature_check_output(signature, 1, false, &asked, &cases[4].output, &error), PEN_ERR_CORRUPT);
    cr_expect_str_eq(error.text, "it has the output 'loose' twice, or it was not asked for");
    cr_expect_eq(asked, 5u);
    cr_expect_eq(signature_check_all(signature, 0, &error), PEN_OK);
    cr_expect_eq(signature_check_all(signature, 6, &error), PEN_ERR_CORRUPT);
    cr_expect_str_eq(error.text, "it lacks the output 'loose'");
}
