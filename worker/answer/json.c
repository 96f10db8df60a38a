/* json.c - a row's results as one JSON text: numbers in 7 digits, coordinates in pixels with 2 decimals. */
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(struct answer_text *text, const char *words)
{
    text_add(text, words, strlen(words));
}

static void put_number(struct answer_text *text, const char *format, double number)
{
    char digits[64];
    if (!isfinite(number)) { /* JSON has no other word for it */
        put(text, "null");
        return;
    }
    snprintf(digits, sizeof digits, format, number);
    put(text, digits);
}

static void put_text(struct answer_text *text, const char *words)
{
    put(text, "\"");
    for (const char *c = words; *c; c++) {
        char escaped[8];
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\') {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)*c);
            put(text, escaped);
        } else {
            text_add(text, c, 1);
        }
    }
    put(text, "\"");
}

static void put_label(const struct answer *answer, struct answer_text *text, size_t class)
{
    if (class >= answer->labels_count)
        return;
    put(text, ",\"label\":");
    put_text(text, answer->labels[class]);
}

/* ---- results ---- */

static void put_classes(const struct answer *answer, struct answer_text *text, const struct answer_row *row)
{
    put(text, ",\"classes\":[");
    for (size_t i = 0; i < row->classes_count; i++) {
        put(text, i ? ",{\"class\":" : "{\"class\":");
        put_number(text, "%.0f", (double)row->classes[i].index);
        put_label(answer, text, row->classes[i].index);
        put(text, ",\"score\":");
        put_number(text, "%.7g", row->classes[i].score);
        put(text, "}");
    }
    put(text, "]");
}

static void put_points(struct answer_text *text, const float *points, uint32_t count)
{
    put(text, "[");
    for (uint32_t i = 0; i < count; i++) {
        const float *point = points + (size_t)i * ANSWER_POINT_VALUES;
        put(text, i ? ",[" : "[");
        put_number(text, "%.2f", (double)point[0]);
        put(text, ",");
        put_number(text, "%.2f", (double)point[1]);
        put(text, ",");
        put_number(text, "%.4g", (double)point[2]);
        put(text, "]");
    }
    put(text, "]");
}

/* The angle is that of the first side. */
static void put_corners(struct answer_text *text, const struct answer_object *object)
{
    const float *c = object->corners;
    put(text, ",\"angle\":");
    put_number(text, "%.5g", atan2((double)(c[3] - c[1]), (double)(c[2] - c[0])));
    put(text, ",\"corners\":");
    for (int i = 0; i < 8; i++) {
        put(text, i == 0 ? "[[" : i % 2 ? "," : "],[");
        put_number(text, "%.2f", (double)c[i]);
    }
    put(text, "]]");
}

static void put_object(const struct answer *answer, struct answer_text *text, const struct answer_object *object)
{
    put(text, "{\"class\":");
    put_number(text, "%.0f", object->class);
    put_label(answer, text, object->class >= 0 ? (size_t)object->class : SIZE_MAX);
    put(text, ",\"score\":");
    put_number(text, "%.7g", (double)object->score);
    put(text, ",\"box\":[");
    for (int i = 0; i < 4; i++) {
        put(text, i ? "," : "");
        put_number(text, "%.2f", (double)object->box[i]);
    }
    put(text, "]");
    if (answer->turned)
        put_corners(text, object);
    if (object->points) {
        put(text, ",\"points\":");
        put_points(text, object->points, answer->points_count);
    }
    put(text, "}");
}

static void put_objects(const struct answer *answer, struct answer_text *text, const struct answer_row *row)
{
    put(text, ",\"objects\":[");
    for (size_t i = 0; i < row->objects_count && i < answer->objects_max; i++) {
        put(text, i ? "," : "");
        put_object(answer, text, &row->objects[i]);
    }
    put(text, "]");
}

static void put_base64(struct answer_text *text, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    put(text, "\"");
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < size ? (uint32_t)bytes[i + 2] : 0;
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], i + 1 < size ? digits[three >> 6 & 63] : '=',
                        i + 2 < size ? digits[three & 63] : '='};
        text_add(text, four, sizeof four);
    }
    put(text, "\"");
}

static enum pen_status put_mask(const struct answer *answer, struct answer_text *text, struct answer_row *row,
                                struct pen_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum pen_status status = mask_png(row, &bytes, &size, reterr);
    if (status != PEN_OK)
        return status;
    put(text, answer->instances ? ",\"mask\":{\"of\":\"objects\",\"width\":" : ",\"mask\":{\"width\":");
    put_number(text, "%.0f", row->mask_width);
    put(text, ",\"height\":");
    put_number(text, "%.0f", row->mask_height);
    put(text, ",\"png\":");
    put_base64(text, bytes, size);
    put(text, "}");
    return PEN_OK;
}

/* ---- what describes them ---- */

static void put_names(const struct answer *answer, struct answer_text *text)
{
    for (uint32_t i = 0; i < answer->names_count; i++) {
        put(text, i ? "," : ",\"names\":[");
        put_text(text, answer->names[i]);
    }
    put(text, answer->names_count ? "]" : "");
    for (uint32_t i = 0; i < answer->skeleton_count; i++) {
        char pair[32];
        snprintf(pair, sizeof pair, "%s[%u,%u]", i ? "," : ",\"skeleton\":[", answer->skeleton[i].from,
                 answer->skeleton[i].to);
        put(text, pair);
    }
    put(text, answer->skeleton_count ? "]" : "");
}

static void put_labels(const struct answer *answer, struct answer_text *text)
{
    for (size_t i = 0; i < answer->labels_count; i++) {
        put(text, i ? "," : ",\"labels\":[");
        put_text(text, answer->labels[i]);
    }
    put(text, answer->labels_count ? "]" : "");
}

static enum pen_status body_put(const struct answer *answer, struct answer_text *text, struct answer_row *row,
                                struct pen_error *reterr)
{
    put(text, "{\"width\":");
    put_number(text, "%.0f", row->map ? row->map->width : answer->width);
    put(text, ",\"height\":");
    put_number(text, "%.0f", row->map ? row->map->height : answer->height);
    if (answer->produces & ANSWER_CLASSES)
        put_classes(answer, text, row);
    if (answer->produces & ANSWER_OBJECTS)
        put_objects(answer, text, row);
    if (answer->produces & ANSWER_POINTS) {
        put(text, ",\"score\":");
        put_number(text, "%.7g", (double)row->points_score);
        put(text, ",\"points\":");
        put_points(text, row->points, row->points ? answer->points_count : 0);
    }
    put_names(answer, text);
    enum pen_status status = PEN_OK;
    if (answer->produces & ANSWER_MASK) {
        if (!answer->instances)
            put_labels(answer, text);
        status = put_mask(answer, text, row, reterr);
    }
    put(text, "}");
    return status;
}

enum pen_status json_write(const struct answer *answer, struct answer_row *row, struct pen_error *reterr)
{
    struct answer_text *text = &row->work->text;
    size_t begin = text->used;
    uint8_t length[4] = {0};
    text_add(text, length, sizeof length);
    enum pen_status status = body_put(answer, text, row, reterr);
    if (status == PEN_OK && text->cut != PEN_OK)
        return answer_lacks(text->cut == PEN_ERR_NO_MEMORY, reterr);
    if (status != PEN_OK)
        return status;
    size_t bytes = text->used - begin - sizeof length;
    for (size_t i = 0; i < sizeof length; i++)
        text->bytes[begin + i] = (char)(bytes >> (8 * i) & 0xff);
    return PEN_OK;
}
