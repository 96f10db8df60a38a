/*
 * Whatever the bytes: the whole engine loads the model on its fast backend with reference behind it, runs it once on zeros for a moment, and lets it go; or
 * refuses with a sentence. What fuzz_onnx does not reach: placement, packed weights, kernels, memory that goes back, loops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "penstock/engine.h"

#define INPUTS_MAX 8
#define RUN_US     20000u
#define BUDGET     ((uint64_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pen_engine *engine_once(void)
{
    static struct pen_engine *engine;
    struct pen_engine_options options;
    struct pen_error error = {0};
    if (!engine) {
        pen_engine_options_init(&options);
        options.backend = "xnnpack";
        options.budget_bytes = BUDGET;
        if (pen_engine_new(&options, &engine, &error) != PEN_OK) {
            fprintf(stderr, "%s\n", error.text);
            abort();
        }
    }
    return engine;
}

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Open dimensions are 2; the first byte of an element is 1 where that is a small number. */
static bool inputs_make(const struct pen_model *model, struct pen_tensor *in, size_t *ret_count)
{
    size_t count = 0;
    const struct pen_tensor *signature = pen_model_inputs(model, &count);
    bool fits = count <= INPUTS_MAX;
    *ret_count = 0;
    for (size_t i = 0; fits && i < count; i++) {
        in[i] = signature[i];
        uint64_t elements = 0;
        for (uint32_t d = 0; d < in[i].rank; d++)
            in[i].dims[d] = in[i].dims[d] < 0 ? 2 : in[i].dims[d];
        fits = in[i].dtype != PEN_DTYPE_STRING && in[i].dtype != PEN_DTYPE_NONE &&
               pen_tensor_elements(&in[i], &elements) == PEN_OK &&
               pen_dtype_bytes(in[i].dtype, elements, &in[i].bytes) == 0 && in[i].bytes <= 1u << 16;
        uint8_t *bytes = fits ? calloc(1, in[i].bytes ? in[i].bytes : 1) : NULL;
        size_t step = fits ? pen_dtype_bits(in[i].dtype) / 8 : 0;
        for (size_t k = 0; bytes && step && in[i].dtype != PEN_DTYPE_F32 && k < in[i].bytes; k += step)
            bytes[k] = (uint8_t)(k / step % 2);
        in[i].data = bytes;
        fits = fits && bytes;
        *ret_count += fits;
    }
    return fits;
}

static void run(struct pen_model *model)
{
    struct pen_tensor in[INPUTS_MAX];
    const struct pen_tensor *out = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    struct pen_stop *stop = pen_stop_new();
    size_t count = 0, outputs = 0;
    if (inputs_make(model, in, &count) && stop && pen_session_new(model, &session, &error) == PEN_OK) {
        pen_stop_arm(stop, now_us() + RUN_US);
        enum pen_status status = pen_session_run(session, in, count, stop, &out, &outputs, &error);
        if (status != PEN_OK && error.text[0] == '\0')
            abort();    /* every refusal says why */
        size_t sum = 0; /* outputs can be read */
        for (size_t i = 0; status == PEN_OK && i < outputs; i++) {
            for (size_t k = 0; k < out[i].bytes; k++)
                sum += ((const uint8_t *)out[i].data)[k];
        }
        (void)*(volatile size_t *)&sum;
    }
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)in[i].data);
    pen_session_free(session);
    pen_stop_free(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct pen_model *model = NULL;
    struct pen_error error = {0};
    int fd = memfd_create("model", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum pen_status status = pen_model_load(engine_once(), path, &model, &error);
    close(fd);
    if (status == PEN_OK)
        run(model);
    else if (error.text[0] == '\0')
        abort();
    pen_model_free(model);
    return 0;
}
