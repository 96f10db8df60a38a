/*
 * Threads that run one model with tensors in scopes of their own, in the foreground and the background, read, poll and pass tensors on, while another opens and closes
 * models, for ThreadSanitizer too. A plain program: Criterion's processes do not live with TSan.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "penstock/backends.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

enum { THREADS = 6, ROUNDS = 60, LOADS = 10 };

static struct pen_model *model;
static atomic_int called, failed;

static void see(void *context, enum pen_status status, const struct pen_tensor *view, const struct pen_error *error)
{
    (void)context;
    (void)error;
    atomic_fetch_add(status == PEN_OK && view->bytes == 40 ? &called : &failed, 1);
}

static enum pen_status one(void *context, struct pen_tensor_handle **ret_results, struct pen_error *reterr)
{
    static const float pixels[64] = {1};
    const int round = *(const int *)context;
    const struct pen_tensor view = {
        .name = "image", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 1, 8, 8}, .data = pixels, .bytes = 256};
    const struct pen_run_options options = {.background = round % 2 == 0};
    struct pen_tensor_handle *x = NULL;
    enum pen_status status = pen_tensor_new(&view, &x, reterr);
    if (status == PEN_OK) {
        status = pen_model_run(model, &x, 1, &options, ret_results, 1, reterr);
    }
    if (status == PEN_OK && round % 3 == 0) {
        status = pen_tensor_data_async(ret_results[0], see, NULL, reterr);
    }
    return status;
}

static void *run(void *unused)
{
    (void)unused;
    struct pen_error error = {0};
    float answer[10];
    for (int round = 0; round < ROUNDS; round++) {
        struct pen_tensor_handle *result = NULL;
        enum pen_status status = pen_tidy(one, &round, &result, 1, &error);
        if (status == PEN_OK && round % 5 != 0) { /* others are never read */
            (void)pen_tensor_ready(result);
            (void)pen_tensor_dtype(result);
            status = pen_tensor_read(result, answer, sizeof answer, &error);
        }
        if (status != PEN_OK) {
            fprintf(stderr, "tsan_library: %s\n", error.text);
            atomic_fetch_add(&failed, 1);
        }
        pen_tensor_dispose(result);
    }
    return NULL;
}

static void *load(void *unused)
{
    (void)unused;
    for (int i = 0; i < LOADS; i++) {
        struct pen_model *other = NULL;
        struct pen_error error = {0};
        if (pen_model_open(DIGITS, &other, &error) != PEN_OK) {
            fprintf(stderr, "tsan_library: %s\n", error.text);
            atomic_fetch_add(&failed, 1);
        }
        pen_model_close(other);
    }
    return NULL;
}

int main(void)
{
    struct pen_error error = {0};
    struct pen_memory memory;
    pthread_t threads[THREADS + 1];
    if (pen_model_open(DIGITS, &model, &error) != PEN_OK) {
        fprintf(stderr, "tsan_library: %s\n", error.text);
        return 1;
    }
    for (int i = 0; i <= THREADS; i++) {
        pthread_create(&threads[i], NULL, i < THREADS ? run : load, NULL);
    }
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pen_model_close(model);
    if (pen_shutdown(&error) != PEN_OK) {
        fprintf(stderr, "tsan_library: %s\n", error.text);
        return 1;
    }
    pen_memory(&memory);
    const int asked = THREADS * ((ROUNDS + 2) / 3);
    if (failed > 0 || called != asked || memory.tensors > 0 || memory.bytes > 0) {
        fprintf(stderr, "tsan_library: %d failed, %d of %d asynchronous reads came, %llu tensors are left\n", failed,
                called, asked, (unsigned long long)memory.tensors);
        return 1;
    }
    printf("1 passed, 0 failed, 0 skipped\n");
    return 0;
}
