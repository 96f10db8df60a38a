/*
 * Any bytes as a picture's file, made a model's input by steps: numbers, or a refusal with a sentence. The last 12 bytes choose the steps.
 */
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct picture_step step_of(const uint8_t *at)
{
    return (struct picture_step){.kind = (enum picture_step_kind)(at[0] % 4),
                                 .x = at[1],
                                 .y = at[2],
                                 .width = 1u + at[3],
                                 .height = 1u + at[4] % 64u,
                                 .filter = (enum scale_filter)(at[0] / 4 % 4),
                                 .fit = (enum picture_fit)(at[0] / 16 % 3)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct picture_steps steps;
    const struct picture_numbers numbers = {.dtype = PEN_DTYPE_F32, .scale = 1.0f, .std = {1.0f, 1.0f, 1.0f}};
    struct pen_error error = {.text = ""};
    struct picture_map map = {.width = 0};
    if (size < 12)
        return 0;
    const uint8_t *choice = data + size - 12;
    steps = (struct picture_steps){.limits = {.pixels = 1 << 20, .memory_bytes = 1 << 24},
                                   .options = {.alpha_dropped = choice[0] & 1, .as_stored = choice[0] >> 1 & 1},
                                   .scaled = choice[0] >> 2 & 1,
                                   .bgr = choice[0] >> 3 & 1,
                                   .nchw = choice[0] >> 4 & 1,
                                   .channels = choice[0] >> 5 & 1 ? 1 : 3,
                                   .steps = {step_of(choice + 2), step_of(choice + 7)},
                                   .count = 1 + choice[1] % 2u};
    if (!picture_steps_size(&steps, &steps.width, &steps.height))
        steps.width = steps.height = 1;
    picture_steps_ready(&steps, &numbers);
    size_t count = (size_t)steps.width * steps.height * steps.channels;
    float *to = malloc(count * sizeof *to);
    uint8_t *bytes = malloc(size - 12 + 1); /* exact but for one, so that a byte too far is seen */
    if (bytes && to) {
        memcpy(bytes + 1, data, size - 12);
        enum pen_status status = picture_steps_run(&steps, bytes + 1, size - 12, "x", to, &map, &error);
        if (status != PEN_OK ? !error.text[0] : !(map.scale_x > 0 && map.scale_y > 0) || to[count - 1] < 0)
            abort();
        if (status == PEN_OK && fabs(picture_map_x(&map, 0) + picture_map_y(&map, 0)) > 1e12)
            abort();
    }
    free(bytes);
    free(to);
    return 0;
}
