/* Crossing between integers and floats. */
#include "import/tflite/reader.h"

/* From floats, or from integers with another scale. */
void lower_quantize(struct call *c)
{
    if (!lite_result_quantised(c, 0))
        build_stop(c->b, PEN_ERR_CORRUPT, "its result has no scale");
    lite_give_real(c, 0, lite_real(c, 0));
}

/* Halves of float16 models too: constants are widened here. */
void lower_dequantize(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    uint32_t y = t->constant ? lite_constant(c->s, t) : VALUE_NONE;
    if (y == VALUE_NONE)
        y = lite_real(c, 0);
    lite_give(c, 0, y);
}
