#include <stdio.h>

#include "sample.h"

static const struct sample_row listed[] = {
#define SAMPLE(op, outputs, inputs, attrs) {OP_##op, outputs, inputs, attrs},
#include "samples.def"
#undef SAMPLE
};
#define LISTED (sizeof listed / sizeof listed[0])

static const char *const unary[] = {"T[2,3,4,5]", "T[7]", "T[1,33]@-4:4", "T[]", "T[0,3]"};
static const char *const binary[] = {"T[2,3,5] T[2,3,5]", "T[2,3,5] T[5]", "T[2,1,5] T[3,1]", "T[4,7] T[]=2",
                                     "T[2,3,4,4] T[3,1,1]c"};
#define SHAPES 5
#define RANDOM 3 /* more shapes, drawn from a seed; the same for every operator */

static uint32_t pick(uint32_t *state, uint32_t low, uint32_t high)
{
    *state = *state * 1664525u + 1013904223u;
    return low + (*state >> 16) % (high - low + 1);
}

/* "T[4,1,7]"; each dim is the given one, or 1 with `ones` in 4. */
static int shape_print(char *text, size_t room, const uint32_t *dims, uint32_t rank, uint32_t ones, uint32_t *state)
{
    int used = snprintf(text, room, "T[");
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t dim = pick(state, 0, 3) < ones ? 1 : dims[d];
        used += snprintf(text + used, room - (size_t)used, "%s%u", d == 0 ? "" : ",", dim);
    }
    return used + snprintf(text + used, room - (size_t)used, "]");
}

/* One tensor, or two that broadcast. */
static const char *random_inputs(char text[128], bool two, uint32_t seed)
{
    uint32_t state = seed * 7919u + 17u, dims[5];
    uint32_t rank = pick(&state, 1, 5);
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = pick(&state, 1, 9);
    }
    int used = shape_print(text, 128, dims, rank, 0, &state);
    if (two) {
        uint32_t skipped = pick(&state, 0, rank - 1);
        text[used++] = ' ';
        shape_print(text + used, 128 - (size_t)used, dims + skipped, rank - skipped, 1, &state);
    }
    return text;
}

/* Operators that the element-wise forms do not fit: three inputs, a second input of its own kind, or no zeros in it. */
static bool shapes_fit(enum op op)
{
    return op != OP_Where && op != OP_PRelu && op != OP_QLinearAdd && op != OP_QLinearMul && op != OP_QLinearSigmoid &&
           op != OP_QLinearLeakyRelu && op != OP_ByteTable && op != OP_BitShift && op != OP_Div && op != OP_Mod;
}

const struct sample_row *sample_rows(void)
{
    static struct sample_row rows[LISTED + OP_COUNT * (SHAPES + RANDOM) + 1];
    static char texts[2][RANDOM][128];
    size_t count = 0;
    if (rows[0].op != OP_NONE) {
        return rows;
    }
    for (enum op op = OP_NONE + 1; op < OP_COUNT; op++) {
        uint32_t traits = op_def(op)->traits;
        const char *const *shapes = (traits & OP_UNARY) != 0 ? unary : (traits & OP_BINARY) != 0 ? binary : NULL;
        for (size_t i = 0; shapes != NULL && shapes_fit(op) && i < SHAPES; i++) {
            rows[count++] = (struct sample_row){op, 1, shapes[i], ""};
        }
        for (uint32_t i = 0; shapes != NULL && shapes_fit(op) && i < RANDOM; i++) {
            bool two = shapes == binary;
            rows[count++] = (struct sample_row){op, 1, random_inputs(texts[two][i], two, i), ""};
        }
        for (size_t i = 0; i < LISTED; i++) {
            if (listed[i].op == op) {
                rows[count++] = listed[i];
            }
        }
    }
    return rows;
}
