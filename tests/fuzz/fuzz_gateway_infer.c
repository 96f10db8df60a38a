/* Bodies of inference requests, JSON and binary, as a gateway reads them; what is taken is classified and written, too. The first byte says how much is JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer_read.h"
#include "json_tensor.h"

static void write_back(const struct pen_tensor *tensor)
{
    struct bytes text = {.limit = 1u << 24};
    struct pen_error error;
    struct pen_tensor classes;
    struct hold *hold = hold_new();
    if (tensor->bytes < 65536 && pen_tensor_check(tensor, NULL) == PEN_OK) {
        json_tensor_write(tensor, &text, &error);
        if (hold)
            inference_classify(tensor, 5, true, NULL, hold, &classes, &error);
    }
    hold_release(hold);
    bytes_fini(&text);
}

static void run(const uint8_t *data, size_t size, bool raw)
{
    static const struct pen_signature signature = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {-1, 4}, .batched = true};
    static const struct pen_model model = {.name = "m", .inputs_count = 1, .inputs = &signature};
    struct hold *hold = hold_new();
    struct inference *inference = NULL;
    struct pen_error error = {.status = PEN_OK};
    char *body = hold ? hold_take(hold, size) : NULL;
    if (body && size > 0) {
        memcpy(body, data + 1, size - 1);
        struct infer_source source = {.model = "m",
                                      .version = "",
                                      .body = body,
                                      .bytes = size - 1,
                                      .hold = hold,
                                      .raw = raw,
                                      .signature = &model};
        source.json_bytes = raw ? 0 : (size - 1) * data[0] / 255;
        if (infer_read(&source, &inference, &error) == PEN_OK)
            for (size_t i = 0; i < inference->inputs_count; i++)
                write_back(&inference->inputs[i]);
        else if (!error.text[0])
            abort(); /* a refusal has a sentence */
    }
    inference_free(inference);
    hold_release(hold);
    if (hold_budget_used() != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hold_budget_set(64u << 20);
    run(data, size, false);
    run(data, size, true);
    return 0;
}
