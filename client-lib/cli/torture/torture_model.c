/*
 * torture_model.c - the models that the torture's own pool serves: y = x + x over f32 [N, 16], and over f32 [N, 524288], whose jobs travel as chunks.
 *
 * The bytes are ONNX ModelProtos of IR version 7, opset 13, with one Add node: small enough to be here, and every job's answer is known.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "torture.h"

static const unsigned char twice[] = {
    /* clang-format off */
    0x08, 0x07, 0x3a, 0x43, 0x0a, 0x0e, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22,
    0x03, 0x41, 0x64, 0x64, 0x12, 0x05, 0x74, 0x77, 0x69, 0x63, 0x65, 0x5a, 0x14, 0x0a, 0x01, 0x78,
    0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x4e, 0x0a, 0x02, 0x08,
    0x10, 0x62, 0x14, 0x0a, 0x01, 0x79, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03,
    0x12, 0x01, 0x4e, 0x0a, 0x02, 0x08, 0x10, 0x42, 0x02, 0x10, 0x0d,
    /* clang-format on */
};

static const unsigned char wide[] = {
    /* clang-format off */
    0x08, 0x07, 0x3a, 0x46, 0x0a, 0x0e, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22,
    0x03, 0x41, 0x64, 0x64, 0x12, 0x04, 0x77, 0x69, 0x64, 0x65, 0x5a, 0x16, 0x0a, 0x01, 0x78, 0x12,
    0x11, 0x0a, 0x0f, 0x08, 0x01, 0x12, 0x0b, 0x0a, 0x03, 0x12, 0x01, 0x4e, 0x0a, 0x04, 0x08, 0x80,
    0x80, 0x20, 0x62, 0x16, 0x0a, 0x01, 0x79, 0x12, 0x11, 0x0a, 0x0f, 0x08, 0x01, 0x12, 0x0b, 0x0a,
    0x03, 0x12, 0x01, 0x4e, 0x0a, 0x04, 0x08, 0x80, 0x80, 0x20, 0x42, 0x02, 0x10, 0x0d,
    /* clang-format on */
};

static const char config[] = "{\"max_batch_size\": 8, \"dynamic_batching\": {\"max_queue_delay_microseconds\": 200}}\n";

static bool write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(bytes, 1, size, file) == size;
    if (file) {
        good &= fclose(file) == 0;
    }
    return good;
}

static bool write_model(const char *folder, const char *name, const unsigned char *model, size_t bytes)
{
    char path[TORTURE_PATH_BYTES + 64];
    const char *const parts[] = {"/models", "/models/", "/models/"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s%s%s%s", folder, parts[i], i > 0 ? name : "", i > 1 ? "/1" : "");
        mkdir(path, 0700); /* what is missing shows below */
    }
    snprintf(path, sizeof path, "%s/models/%s/1/model.onnx", folder, name);
    if (!write_file(path, model, bytes)) {
        return false;
    }
    snprintf(path, sizeof path, "%s/models/%s/config.json", folder, name);
    return write_file(path, config, sizeof config - 1);
}

bool model_write(const char *folder)
{
    return write_model(folder, MODEL_NAME, twice, sizeof twice) && write_model(folder, LARGE_NAME, wide, sizeof wide);
}

static void remove_model(const char *folder, const char *name)
{
    static const char *const parts[] = {"1/model.onnx", "config.json", "1", ""};
    char path[TORTURE_PATH_BYTES + 64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/models/%s/%s", folder, name, parts[i]);
        remove(path);
    }
}

void model_remove(const char *folder)
{
    char path[TORTURE_PATH_BYTES + 64];
    remove_model(folder, MODEL_NAME);
    remove_model(folder, LARGE_NAME);
    snprintf(path, sizeof path, "%s/models", folder);
    rmdir(path);
}
