#include "fixture.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_file.h"

char folder[FOLDER_PATH_BYTES];

#define COUNT 6
static const float relu_in[COUNT] = {-2, -1, 0, 1, 2.5f, 3}, relu_out[COUNT] = {0, 0, 0, 1, 2.5f, 3};
static const float wrong_out[COUNT] = {0, 0, 0, 1, 2.5f, 4};
static const float det_in[4] = {1, 2, 3, 5}, det_out[1] = {-1};
const struct sample relu = {.op = "Relu", .count = COUNT, .in = relu_in, .out = relu_out};
const struct sample relu_wrong = {.op = "Relu", .count = COUNT, .in = relu_in, .out = wrong_out};
const struct sample det = {.op = "Det", .count = 4, .in = det_in, .out = det_out, .square = true};

static char *kept[4096];
static size_t kept_count;

char *keep(char *text)
{
    cr_assert_not_null(text);
    cr_assert_lt(kept_count, sizeof kept / sizeof kept[0]);
    return kept[kept_count++] = text;
}

void fixture_setup(void)
{
    folder_new(folder);
}

void fixture_teardown(void)
{
    folder_free(folder);
    while (kept_count > 0) {
        free(kept[--kept_count]);
    }
}

const char *path_of(const char *name)
{
    char *path = keep(malloc(PATH_BYTES));
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

static const char *path_in(const char *name, const char *more)
{
    char both[PATH_BYTES - FOLDER_PATH_BYTES];
    snprintf(both, sizeof both, "%s%s", name, more);
    return path_of(both);
}

void text_write(const char *name, const char *text)
{
    file_write(path_of(name), text, strlen(text));
}

static void model_write(const char *path, const struct sample *s)
{
    int64_t n = s->square ? 2 : (int64_t)s->count;
    const struct onnx_node node = {.op = s->op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = 1, .dims = {s->square ? n : 1, n}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = 1, .dims = {1, n}, .rank = s->square ? 0 : 2};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

/* TensorProto: dims = 1, data_type = 2, raw_data = 9. All numbers here fit one byte of a varint. */
static void tensor_write(const char *path, const float *data, size_t count, const uint8_t *dims, size_t rank)
{
    uint8_t bytes[256];
    size_t at = 0;
    for (size_t i = 0; i < rank; i++) {
        bytes[at++] = 1 << 3;
        bytes[at++] = dims[i];
    }
    bytes[at++] = 2 << 3;
    bytes[at++] = 1; /* FLOAT */
    bytes[at++] = 9 << 3 | 2;
    bytes[at++] = (uint8_t)(4 * count);
    memcpy(bytes + at, data, 4 * count);
    file_write(path, bytes, at + 4 * count);
}

static void input_write(const char *path, const struct sample *s)
{
    tensor_write(path, s->in, s->count, s->square ? (uint8_t[]){2, 2} : (uint8_t[]){1, (uint8_t)s->count}, 2);
}

static void output_write(const char *path, const struct sample *s)
{
    tensor_write(path, s->out, s->square ? 1 : s->count, (uint8_t[]){1, (uint8_t)s->count}, s->square ? 0 : 2);
}

void set_write(const char *name, unsigned set, const struct sample *s)
{
    char part[64];
    snprintf(part, sizeof part, "/test_data_set_%u", set);
    folder_make(path_in(name, part));
    snprintf(part, sizeof part, "/test_data_set_%u/input_0.pb", set);
    input_write(path_in(name, part), s);
    snprintf(part, sizeof part, "/test_data_set_%u/output_0.pb", set);
    output_write(path_in(name, part), s);
}

void onnx_case(const char *name, const struct sample *s)
{
    set_write(name, 0, s);
    model_write(path_in(name, "/model.onnx"), s);
}

void golden_case(const char *name, const struct sample *s)
{
    char json[1024];
    folder_make(path_in(name, "/golden"));
    model_write(path_in(name, "/model.onnx"), s);
    file_write(path_in(name, "/golden/in.bin"), s->in, 4 * s->count);
    file_write(path_in(name, "/golden/out.bin"), s->out, s->square ? 4 : 4 * s->count);
    snprintf(json, sizeof json,
             "{\"case\": \"case\", \"model\": \"model.onnx\", \"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", "
             "\"shape\": [%d, %zu], \"file\": \"in.bin\"}], \"outputs\": [{\"name\": \"another name\", \"dtype\": "
             "\"float32\", \"shape\": [%s%.0zu%s], \"file\": \"out.bin\"}]}",
             s->square ? 2 : 1, s->square ? 2 : s->count, s->square ? "" : "1, ", s->square ? 0 : s->count, "");
    file_write(path_in(name, "/golden/case.json"), json, strlen(json));
}

void light_case(const char *name, const struct sample *s)
{
    model_write(path_in(name, ".onnx"), s);
    output_write(path_in(name, "_output_0.pb"), s);
}

void byte_flip(const char *name, long from_end)
{
    size_t size = 0;
    uint8_t *bytes = file_read(path_of(name), &size);
    bytes[size - (size_t)from_end] ^= 0x40;
    file_write(path_of(name), bytes, size);
    free(bytes);
}

struct printed engine(const char *const arguments[])
{
    const char *argv[32] = {"penstock-engine"};
    struct printed p = {0};
    size_t count = 1;
    for (; arguments[count - 1] != NULL && count < 31; count++) {
        argv[count] = arguments[count - 1];
    }
    argv[count] = NULL;
    p.status = process_run(argv, 60000, &p.out, &p.err);
    keep(p.out);
    keep(p.err);
    return p;
}

struct printed verify(const char *const arguments[])
{
    const char *all[32] = {"verify"};
    size_t count = 1;
    for (; arguments[count - 1] != NULL && count < 30; count++) {
        all[count] = arguments[count - 1];
    }
    all[count] = folder;
    return engine(all);
}

const char *field(const struct printed *p, const char *name, unsigned index)
{
    for (const char *line = p->out; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *at = line;
        size_t lengths[8] = {0};
        const char *starts[8] = {0};
        unsigned count = 0;
        for (; count < 8; count++) {
            starts[count] = at;
            lengths[count] = strcspn(at, "\t\n");
            at += lengths[count];
            if (*at++ != '\t') {
                count++;
                break;
            }
        }
        if (count > 1 && strlen(name) == lengths[1] && strncmp(starts[1], name, lengths[1]) == 0) {
            cr_assert_lt(index, count, "the line of %s has %u fields:\n%s", name, count, p->out);
            return keep(strndup(starts[index], lengths[index]));
        }
        cr_assert_not_null(strchr(line, '\n'), "an unfinished line:\n%s", p->out);
    }
    cr_assert_fail("no line of %s in:\n%s%s", name, p->out, p->err);
    return NULL;
}

const char *last_line(const struct printed *p)
{
    char *text = keep(strdup(p->out));
    size_t length = strlen(text);
    cr_assert_gt(length, 0, "nothing was printed; errors: %s", p->err);
    text[length - 1] = '\0';
    char *newline = strrchr(text, '\n');
    return newline != NULL ? newline + 1 : text;
}

cJSON *json_of(const struct printed *p)
{
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithOpts(p->out, &end, 0);
    cr_assert(cJSON_IsObject(json), "status %d, no JSON object: %s%s", p->status, p->out, p->err);
    cr_assert_str_eq(end + strspn(end, "\n"), "", "something follows the object: %s", end);
    return json;
}

void expect_keys(const cJSON *object, const char *const keys[])
{
    for (size_t i = 0; keys[i] != NULL; i++) {
        cr_assert(cJSON_HasObjectItem(object, keys[i]), "no key %s", keys[i]);
    }
}
