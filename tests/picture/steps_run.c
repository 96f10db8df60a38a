/*
 * steps_run.c - a program for tests and benches: runs steps on files, as a worker does, and writes the pixels.
 *
 *   steps_run <<< "FILE CHANNELS ALPHA STEPS OUT"       one line each; OUT gets [height, width, channels] of uint8
 *   steps_run --time COUNT FILE STEPS                   milliseconds of each run to a float tensor, one line each
 *
 * ALPHA: drop, or RRGGBB (laid over it). STEPS: - or words joined by '+': bilinear:224x224:stretch, cubic:224x224:pad, area:10x20:crop, bilinear-short:256,
 * crop:X,Y,224x224, middle:224x224; scaled and stored are options. Answers "ok WIDTH HEIGHT map..." or "error SENTENCE".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "steps.h"

static const char *const filters[] = {"bilinear", "area", "cubic", "nearest"};
static const char *const fits[] = {"stretch", "crop", "pad"};

static uint32_t index_of(const char *word, const char *const *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    fprintf(stderr, "steps_run: '%s' is no word that it knows\n", word);
    exit(2);
}

static void step_add(struct picture_steps *steps, const char *word)
{
    struct picture_step *step = &steps->steps[steps->count];
    char name[32] = "", fit[32] = "stretch";
    *step = (struct picture_step){.fill = {114, 20, 200}};
    if (strcmp(word, "scaled") == 0 || strcmp(word, "stored") == 0) {
        steps->scaled |= word[1] == 'c';
        steps->options.as_stored |= word[1] == 't';
        return;
    }
    if (sscanf(word, "crop:%" SCNu32 ",%" SCNu32 ",%" SCNu32 "x%" SCNu32, &step->x, &step->y, &step->width,
               &step->height) == 4) {
        step->kind = PICTURE_STEP_CROP;
    } else if (sscanf(word, "middle:%" SCNu32 "x%" SCNu32, &step->width, &step->height) == 2) {
        step->kind = PICTURE_STEP_MIDDLE;
    } else if (sscanf(word, "%31[a-z]-short:%" SCNu32, name, &step->width) == 2) {
        step->kind = PICTURE_STEP_SHORT;
        step->filter = (enum scale_filter)index_of(name, filters, 4);
    } else if (sscanf(word, "%31[a-z]:%" SCNu32 "x%" SCNu32 ":%31s", name, &step->width, &step->height, fit) >= 3) {
        step->kind = PICTURE_STEP_RESIZE;
        step->filter = (enum scale_filter)index_of(name, filters, 4);
        step->fit = (enum picture_fit)index_of(fit, fits, 3);
    } else {
        index_of(word, filters, 0);
    }
    steps->count++;
}

static void steps_read(struct picture_steps *steps, char *text)
{
    for (char *word = strtok(text, "+"); word && strcmp(word, "-") != 0; word = strtok(NULL, "+")) {
        if (steps->count == PICTURE_STEPS_MAX) {
            exit(2);
        }
        step_add(steps, word);
    }
}

static uint8_t *file_bytes(const char *path, size_t *ret_size)
{
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    *ret_size = (size_t)ftell(in);
    rewind(in);
    uint8_t *bytes = malloc(*ret_size + 1);
    if (!bytes || fread(bytes, 1, *ret_size, in) != *ret_size) {
        exit(2);
    }
    fclose(in);
    return bytes;
}

static void ready(struct picture_steps *steps, enum pen_dtype dtype)
{
    const struct picture_numbers numbers = {
        .dtype = dtype, .scale = 1.0f / 255.0f, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
    if (!picture_steps_size(steps, &steps->width, &steps->height)) {
        steps->width = steps->height = 0;
    }
    picture_steps_ready(steps, &numbers);
}

static void answer(struct picture_steps *steps, const char *file, const char *out)
{
    size_t size = 0;
    struct picture_map map;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    uint8_t *bytes = file_bytes(file, &size), *pixels = malloc(16384u * 16384u);
    enum pen_status status = picture_steps_run(steps, bytes, size, "the picture", pixels, &map, &error);
    uint32_t width = 0, height = 0;
    if (status == PEN_ERR_SHAPE &&
        sscanf(error.text, "the picture becomes %" SCNu32 "x%" SCNu32, &width, &height) == 2) {
        steps->width = width; /* the steps leave the size open: as large as it becomes */
        steps->height = height;
        status = picture_steps_run(steps, bytes, size, "the picture", pixels, &map, &error);
    }
    FILE *to = status == PEN_OK ? fopen(out, "wb") : NULL;
    if (to) {
        fwrite(pixels, steps->channels, (size_t)steps->width * steps->height, to);
        fclose(to);
        printf("ok %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %.9g %.9g %.9g %.9g\n", steps->width, steps->height,
               map.width, map.height, map.scale_x, map.scale_y, map.offset_x, map.offset_y);
    } else {
        printf("error %s %s\n", pen_status_name(status), error.text);
    }
    fflush(stdout);
    free(bytes);
    free(pixels);
}

static int lines_answer(void)
{
    char file[1024], alpha[16], text[256], out[1024];
    uint32_t channels = 0, rgb = 0;
    while (scanf("%1023s %" SCNu32 " %15s %255s %1023s", file, &channels, alpha, text, out) == 5) {
        struct picture_steps *steps = calloc(1, sizeof *steps);
        steps->channels = channels;
        steps->options.alpha_dropped = strcmp(alpha, "drop") == 0;
        rgb = (uint32_t)strtoul(alpha, NULL, 16);
        for (int c = 0; c < 3; c++) {
            steps->options.background[c] = (uint8_t)(rgb >> (16 - 8 * c));
        }
        steps_read(steps, text);
        ready(steps, PEN_DTYPE_U8);
        answer(steps, file, out);
        free(steps);
    }
    return 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Each run waits for a line, so that another program's runs may lie between. */
static int runs_time(int count, const char *file, char *text)
{
    size_t size = 0;
    struct picture_map map;
    struct pen_error error = {.text = ""};
    struct picture_steps *steps = calloc(1, sizeof *steps);
    uint8_t *bytes = file_bytes(file, &size);
    steps->channels = 3;
    steps_read(steps, text);
    ready(steps, PEN_DTYPE_F32);
    float *to = malloc((size_t)steps->width * steps->height * 3 * sizeof *to);
    for (int i = 0; i < count && getchar() != EOF; i++) {
        double begin_ms = now_ms();
        enum pen_status status = picture_steps_run(steps, bytes, size, file, to, &map, &error);
        printf("%.4f\n", now_ms() - begin_ms);
        fflush(stdout);
        if (status != PEN_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
    }
    free(to);
    free(bytes);
    free(steps);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--time") == 0) {
        return runs_time(atoi(argv[2]), argv[3], argv[4]);
    }
    return lines_answer();
}
