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

/* Operators that the element-wise forms do not fit: three inputs, a second input of its own kind, or no zeros in it. */
static bool shapes_fit(enum op op)
{
    return op != OP_Where && op != OP_PRelu && op != OP_QLinearAdd && op != OP_QLinearMul && op != OP_QLinearSigmoid &&
           op != OP_QLinearLeakyRelu && op != OP_BitShift && op != OP_Div && op != OP_Mod;
}

const struct sample_row *sample_rows(void)
{
    static struct sample_row rows[LISTED + OP_COUNT * SHAPES + 1];
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
        for (size_t i = 0; i < LISTED; i++) {
            if (listed[i].op == op) {
                rows[count++] = listed[i];
            }
        }
    }
    return rows;
}
