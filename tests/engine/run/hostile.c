#include "hostile.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 64];
struct pen_engine *engine;
struct pen_error error;

void engine_open(const char *backend)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
}

void setup(void)
{
    engine_open("xnnpack");
    folder_new(folder);
    snprintf(path, sizeof path, "%s/inside/model.onnx", folder);
    char inside[sizeof path];
    snprintf(inside, sizeof inside, "%s/inside", folder);
    folder_make(inside);
}

void teardown(void)
{
    pen_engine_free(engine);
    folder_free(folder);
}

uint64_t peak_bytes(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        sscanf(line, "VmHWM: %llu", &kib);
    }
    if (f != NULL) {
        fclose(f);
    }
    return kib * 1024;
}

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

enum pen_status load(struct pen_model **ret_model)
{
    error = (struct pen_error){0};
    *ret_model = NULL;
    return pen_model_load(engine, path, ret_model, &error);
}
