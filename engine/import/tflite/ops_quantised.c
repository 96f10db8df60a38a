/* Crossing between integers and floats. */
#include "import/tflite/reader.h"

/* From floats, or from integers with another scale. */
void lower_quantize(struct call *c)
{
    if (!call_result_quantised(c, 0))
        build_stop(c->b, PEN_ERR_CORRUPT, "its result has no scale");
    call_give_real(c, 0, call_real(c, 0));
}

/* Halves of float16 models too: constants are widened here. */
void lower_dequantize(struct call *c)
{
    const struct tensor *t = call_tensor(c, 0);
    uint32_t y = t->constant ? tensor_real(c->s, t) : VALUE_NONE;
    if (y == VALUE_NONE)
        y = call_real(c, 0);
    call_give(c, 0, y);
}
