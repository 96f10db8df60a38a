#include "answer_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "canvas.h"

#define SCORE_DRAWN 0.3  /* points of people below it are guesses */
#define MESH_POINTS 64   /* more are drawn small, in one colour */
#define MASK_COVER  0.45 /* how much of the picture a mask hides */

/* How to draw on this canvas. */
struct drawing {
    struct picture *canvas;
    double scale_x, scale_y; /* canvas pixels per pixel of the answer */
    double line;             /* width of lines */
    unsigned dot;            /* of the font */
    const cJSON *skeleton;
};

static double number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

static double number_at(const cJSON *list, int index)
{
    const cJSON *value = cJSON_GetArrayItem(list, index);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* ---- masks ---- */

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Free it. */
static uint8_t *base64_read(const char *text, size_t *ret_size)
{
    size_t length = strlen(text), used = 0;
    uint8_t *bytes = malloc(length / 4 * 3 + 3);
    uint32_t bits = 0;
    unsigned kept = 0;
    for (size_t i = 0; bytes && i < length && digit(text[i]) >= 0; i++) {
        bits = bits << 6 | (uint32_t)digit(text[i]);
        kept += 6;
        if (kept >= 8) {
            kept -= 8;
            bytes[used++] = (uint8_t)(bits >> kept);
        }
    }
    *ret_size = used;
    return bytes;
}

static void mask_tint(const struct drawing *drawing, const struct picture *mask)
{
    struct picture *canvas = drawing->canvas;
    for (uint32_t y = 0; y < canvas->height; y++) {
        for (uint32_t x = 0; x < canvas->width; x++) {
            uint64_t row = (uint64_t)y * mask->height / canvas->height,
                     column = (uint64_t)x * mask->width / canvas->width;
            uint8_t value = mask->pixels[(row * mask->width + column) * mask->channels];
            canvas_tint(canvas, (long)x, (long)y, value ? MASK_COVER : 0, canvas_ink(value == 255 ? 0 : value));
        }
    }
}

static void mask_draw(const struct drawing *drawing, const cJSON *answer)
{
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItemCaseSensitive(answer, "mask"), "png"));
    struct picture mask = {.pixels = NULL};
    size_t size = 0;
    uint8_t *bytes = text ? base64_read(text, &size) : NULL;
    if (bytes && picture_decode(bytes, size, "mask", NULL, &mask, NULL) == PEN_OK) {
        mask_tint(drawing, &mask);
    }
    picture_fini(&mask);
    free(bytes);
}

/* ---- points ---- */

/* False: it is not there, or not sure. Meshes have a depth for a third number, so only those of skeletons are scores. */
static bool point_at(const struct drawing *drawing, const cJSON *point, double at[2])
{
    at[0] = number_at(point, 0) * drawing->scale_x;
    at[1] = number_at(point, 1) * drawing->scale_y;
    bool sure = !drawing->skeleton || !(number_at(point, 2) < SCORE_DRAWN);
    return isfinite(at[0]) && isfinite(at[1]) && sure;
}

static void skeleton_draw(const struct drawing *drawing, const cJSON *points, struct ink ink)
{
    const cJSON *line = NULL;
    cJSON_ArrayForEach(line, drawing->skeleton)
    {
        double from[2], to[2];
        if (point_at(drawing, cJSON_GetArrayItem(points, (int)number_at(line, 0)), from) &&
            point_at(drawing, cJSON_GetArrayItem(points, (int)number_at(line, 1)), to)) {
            canvas_line(drawing->canvas, from, to, drawing->line, ink);
        }
    }
}

static void points_draw(const struct drawing *drawing, const cJSON *points, struct ink ink)
{
    bool mesh = cJSON_GetArraySize(points) > MESH_POINTS;
    double radius = mesh ? drawing->line * 0.4 : drawing->line * 1.2;
    unsigned index = 0;
    const cJSON *point = NULL;
    skeleton_draw(drawing, points, ink);
    cJSON_ArrayForEach(point, points)
    {
        double at[2];
        if (point_at(drawing, point, at)) {
            canvas_disc(drawing->canvas, at, radius, canvas_ink(mesh ? 3 : index));
        }
        index++;
    }
}

/* ---- objects, classes ---- */

static void label_text(const cJSON *object, char *text, size_t room)
{
    const char *label = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "label"));
    double score = number(object, "score", NAN);
    double class = number(object, "class", NAN);
    int used = 0;
    if (label) {
        used = snprintf(text, room, "%s", label);
    } else if (isfinite(class)) {
        used = snprintf(text, room, "%.0f", class);
    }
    if (used >= 0 && (size_t)used < room && isfinite(score)) {
        snprintf(text + used, room - (size_t)used, "%s%.2f", used ? " " : "", score);
    }
}

/* A turned box, by its corners. */
static void corners_draw(const struct drawing *drawing, const cJSON *corners, struct ink ink)
{
    double at[4][2];
    bool whole = true;
    for (int i = 0; i < 4; i++) {
        const cJSON *corner = cJSON_GetArrayItem(corners, i);
        at[i][0] = number_at(corner, 0) * drawing->scale_x;
        at[i][1] = number_at(corner, 1) * drawing->scale_y;
        whole &= isfinite(at[i][0]) && isfinite(at[i][1]);
    }
    for (int i = 0; whole && i < 4; i++) {
        canvas_line(drawing->canvas, at[i], at[(i + 1) % 4], drawing->line, ink);
    }
}

static void object_draw(const struct drawing *drawing, const cJSON *object, unsigned index)
{
    const cJSON *box = cJSON_GetObjectItemCaseSensitive(object, "box"),
                *points = cJSON_GetObjectItemCaseSensitive(object, "points"),
                *corners = cJSON_GetObjectItemCaseSensitive(object, "corners");
    struct ink ink = canvas_ink(drawing->skeleton ? index : (unsigned)number(object, "class", 0));
    double edges[4], corner[2];
    char text[128];
    for (int i = 0; i < 4; i++) {
        edges[i] = number_at(box, i) * (i % 2 ? drawing->scale_y : drawing->scale_x);
    }
    corner[0] = edges[0];
    corner[1] = edges[1];
    if (cJSON_GetArraySize(corners) == 4) {
        corners_draw(drawing, corners, ink);
    } else {
        canvas_box(drawing->canvas, edges, drawing->line, ink);
    }
    points_draw(drawing, points, ink);
    points_draw(drawing, cJSON_GetObjectItemCaseSensitive(object, "mesh"), ink);
    label_text(object, text, sizeof text);
    if (isfinite(corner[0]) && isfinite(corner[1])) {
        canvas_text(drawing->canvas, corner, text, drawing->dot, ink);
    }
}

static void classes_draw(const struct drawing *drawing, const cJSON *answer)
{
    double at[2] = {0, 0};
    unsigned index = 0;
    const cJSON *class = NULL;
    cJSON_ArrayForEach(class, cJSON_GetObjectItemCaseSensitive(answer, "classes"))
    {
        char text[128];
        label_text(class, text, sizeof text);
        at[1] += (FONT_ROWS + 2) * drawing->dot;
        canvas_text(drawing->canvas, at, text, drawing->dot, canvas_ink(index++));
    }
}

void answer_draw(const cJSON *answer, struct picture *canvas)
{
    uint32_t side = canvas->width < canvas->height ? canvas->width : canvas->height;
    double width = number(answer, "width", 0), height = number(answer, "height", 0);
    struct drawing drawing = {.canvas = canvas,
                              .scale_x = width > 0 ? canvas->width / width : 1,
                              .scale_y = height > 0 ? canvas->height / height : 1,
                              .line = side / 240.0 > 1.5 ? side / 240.0 : 1.5,
                              .dot = side / 320 ? side / 320 : 1,
                              .skeleton = cJSON_GetObjectItemCaseSensitive(answer, "skeleton")};
    unsigned index = 0;
    const cJSON *object = NULL;
    mask_draw(&drawing, answer);
    cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(answer, "objects"))
    {
        object_draw(&drawing, object, index++);
    }
    points_draw(&drawing, cJSON_GetObjectItemCaseSensitive(answer, "points"), canvas_ink(0));
    classes_draw(&drawing, answer);
}

enum pen_status answer_draw_file(const pen_result *result, const char *file, const char *out, struct pen_error *reterr)
{
    struct picture any = {.pixels = NULL}, canvas = {.pixels = NULL};
    cJSON *answer = answer_read(result);
    if (!answer) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "nothing of the answer can be drawn: the model's config.json needs \"answer\" "
                             "(deploy/ANSWERS.md).");
    }
    enum pen_status status = picture_read(file, NULL, &any, reterr);
    status = status == PEN_OK ? picture_convert(&any, 3, &canvas, reterr) : status;
    if (status == PEN_OK) {
        answer_draw(answer, &canvas);
        status = picture_write_png(out, &canvas, reterr);
    }
    picture_fini(&any);
    picture_fini(&canvas);
    cJSON_Delete(answer);
    return status;
}
