/* Random numbers: of the distribution that the file asks for. A seed gives the same numbers in every run, those of the engine's own generator. */
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static void seed(struct call *c)
{
    int64_t first = fb_int(&c->options, 0, 8, 0), second = fb_int(&c->options, 1, 8, 0);
    if (first != 0 || second != 0) /* 24 bits: what a float keeps apart */
        build_float(c->b, ATTR_seed, (float)((uint64_t)(first * 31 + second) % 0xffffff + 1));
}

/* input 0: the shape */
void lower_random(struct call *c)
{
    uint32_t zeros = build_1(c->b, OP_ConstantOfShape, lite_i64(c, 0));
    uint32_t y = build_1(c->b, (enum op)tflite_row_find(c->code)->op, zeros);
    seed(c);
    lite_give(c, 0, y);
}

/* logits, number of samples */
void lower_multinomial(struct call *c)
{
    int64_t count;
    uint32_t read = 0;
    if (!build_ints_of(c->b, lite_in(c, 1), &count, 1, &read) || read != 1 || count < 0) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its number of samples must be constant");
        return;
    }
    uint32_t y = build_1(c->b, OP_Multinomial, lite_in(c, 0));
    build_int(c->b, ATTR_sample_size, count);
    seed(c);
    lite_give(c, 0, build_cast(c->b, y, lite_result(c, 0)->dtype));
}
