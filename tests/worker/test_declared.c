/* config.json declares tensors of a model (input, output): what the model itself says must fit, and the sentence says where it does not. */
#include "declared.h"

#include <criterion/criterion.h>
#include <string.h>

static struct pen_error error;
static struct served served;
static struct ensemble_plan declared;
static struct pen_tensor inputs[3], outputs[2], declared_inputs[2], declared_outputs[2];

static struct pen_tensor tensor(const char *name, enum pen_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    return (struct pen_tensor){.name = name, .dtype = dtype, .rank = rank, .dims = {a, b, c}};
}

#define F32 PEN_DTYPE_F32

/* The model: x f32 [-1, 8, 3], y f32 [4], z of any type [2]; it gives p f32 [-1, 10] and q f32 of any shape. */
static enum pen_status check(uint32_t batch, const struct pen_tensor *in, const struct pen_tensor *out)
{
    memset(&served, 0, sizeof served);
    inputs[0] = tensor("x", F32, 3, -1, 8, 3);
    inputs[1] = tensor("y", F32, 1, 4, 0, 0);
    inputs[2] = tensor("z", PEN_DTYPE_NONE, 1, 2, 0, 0);
    outputs[0] = tensor("p", F32, 2, -1, 10, 0);
    outputs[1] = tensor("q", F32, 0, 0, 0, 0);
    served.network_inputs = inputs;
    served.inputs_count = 3;
    served.network_outputs = outputs;
    served.network_outputs_count = 2;
    served.max_batch_size = batch;
    declared = (struct ensemble_plan){.inputs = declared_inputs, .outputs = declared_outputs};
    declared_inputs[0] = tensor("z", PEN_DTYPE_U8, 1, 2, 0, 0); /* fits */
    if (batch > 0)
        declared_inputs[0].rank = 0;
    declared_outputs[0] = tensor("q", F32, 2, 7, 7, 0); /* its shape may be known only after a run */
    declared.inputs_count = in ? 2 : 1;
    declared.outputs_count = out ? 2 : 1;
    if (in)
        declared_inputs[1] = *in;
    if (out)
        declared_outputs[1] = *out;
    served.config.declared = &declared;
    error = (struct pen_error){.status = PEN_OK};
    return declared_check(&served, &error);
}

Test(declared, tensors_fit_the_models_or_the_sentence_says_where_not)
{
    const struct {
        uint32_t batch;
        bool output;
        struct pen_tensor tensor;
        enum pen_status status;
        const char *text;
    } cases[] = {
        {0, false, tensor("x", F32, 3, -1, 8, 3), PEN_OK, ""},
        {0, false, tensor("x", F32, 3, 5, 8, 3), PEN_OK, ""},
        {0, false, tensor("x", F32, 3, 5, -1, -1), PEN_OK, ""},
        {0, false, tensor("x", F32, 3, 5, 9, 3), PEN_ERR_INVALID,
         "input says that 'x' has dims 5x9x3, the model's are ?x8x3"},
        {0, false, tensor("x", F32, 3, 5, 8, 2), PEN_ERR_INVALID,
         "input says that 'x' has dims 5x8x2, the model's are ?x8x3"},
        {0, false, tensor("x", F32, 2, 8, 3, 0), PEN_ERR_INVALID,
         "input says that 'x' has dims 8x3, the model's are ?x8x3; if dimension 0 is the batch, give max_batch_size"},
        {0, false, tensor("x", F32, 2, 8, 4, 0), PEN_ERR_INVALID,
         "input says that 'x' has dims 8x4, the model's are ?x8x3"},
        {4, false, tensor("x", F32, 2, 8, 3, 0), PEN_OK, ""},
        {4, false, tensor("x", F32, 3, -1, 8, 3), PEN_ERR_INVALID,
         "input says that 'x' has dims ?x8x3, the model's are ?x8x3; with max_batch_size above 0 the dims leave the "
         "batch out"},
        {4, false, tensor("x", F32, 2, 7, 3, 0), PEN_ERR_INVALID,
         "input says that 'x' has dims 7x3, the model's are ?x8x3"},
        {1, false, tensor("x", F32, 2, 8, 3, 0), PEN_OK, ""},
        {0, false, tensor("x", PEN_DTYPE_U8, 3, -1, 8, 3), PEN_ERR_INVALID,
         "input says that 'x' is u8, the model's is f32"},
        {0, false, tensor("z", F32, 1, 2, 0, 0), PEN_OK, ""}, /* of any type */
        {0, false, tensor("w", F32, 1, 2, 0, 0), PEN_ERR_NOT_FOUND,
         "input names 'w', which the model does not have: it has 'x', 'y', 'z'"},
        {0, false, tensor("p", F32, 2, -1, 10, 0), PEN_ERR_NOT_FOUND,
         "input names 'p', which the model does not have: it has 'x', 'y', 'z'"},
        {0, true, tensor("p", F32, 2, -1, 10, 0), PEN_OK, ""},
        {0, true, tensor("p", F32, 2, -1, 11, 0), PEN_ERR_INVALID,
         "output says that 'p' has dims ?x11, the model's are ?x10"},
        {4, true, tensor("p", F32, 1, 10, 0, 0), PEN_OK, ""},
        {0, true, tensor("q", F32, 3, 1, 2, 3), PEN_OK, ""},
        {0, true, tensor("q", PEN_DTYPE_U8, 3, 1, 2, 3), PEN_ERR_INVALID,
         "output says that 'q' is u8, the model's is f32"},
        {0, true, tensor("x", F32, 3, -1, 8, 3), PEN_ERR_NOT_FOUND,
         "output names 'x', which the model does not have: it has 'p', 'q'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum pen_status status =
            check(cases[i].batch, cases[i].output ? NULL : &cases[i].tensor, cases[i].output ? &cases[i].tensor : NULL);
        cr_expect_eq(status, cases[i].status, "case %zu: %s", i, error.text);
        cr_expect_str_eq(error.text, cases[i].text, "case %zu", i);
    }
}

Test(declared, a_scalar_input_is_no_shape_that_is_unknown)
{
    const struct pen_tensor wrong = tensor("y", F32, 1, 3, 0, 0);
    check(0, NULL, NULL);
    inputs[1].rank = 0;
    declared.inputs_count = 2;
    declared_inputs[1] = wrong;
    cr_expect_eq(declared_check(&served, &error), PEN_ERR_INVALID);
    served.config.declared = NULL;
    cr_expect_eq(declared_check(&served, &error), PEN_OK, "nothing is declared");
}

Test(declared, the_first_that_does_not_fit_is_told)
{
    const struct pen_tensor in = tensor("x", F32, 1, 1, 0, 0), out = tensor("p", F32, 1, 1, 0, 0);
    cr_expect_eq(check(0, &in, &out), PEN_ERR_INVALID);
    cr_expect(strncmp(error.text, "input says that 'x'", 19) == 0, "%s", error.text);
}
