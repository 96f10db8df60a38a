/*
 * What comes after a model: any text as config.json's "answer", any outputs of any shapes as its inputs. Refused with a sentence at load or at the run, or an answer that is
 * whole: tensors of their dims, JSON that can be read. An input: the text, a zero byte, then
 *   flags (1: batched, 2: a map, 4: labels, 8: quantised, 16: data are raw bits, 32: dims are known when it runs only), rows, height, width, number of outputs,
 *   for each output its type, rank and dims, one byte each, and bytes that become the data. Outputs are called o0, o1 ...; 57 seeds come from answer_seeds.py.
 */
#include "answer.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUTS_MAX  6u
#define ELEMENTS_MAX (1u << 18)

enum { BATCHED = 1, MAPPED = 2, LABELLED = 4, QUANTISED = 8, RAW = 16, LATE = 32 };

struct reader {
    const uint8_t *at, *end;
};

static uint8_t next(struct reader *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

static struct pen_tensor output_of(struct reader *r)
{
    static const enum pen_dtype types[] = {PEN_DTYPE_F32, PEN_DTYPE_F16, PEN_DTYPE_BF16, PEN_DTYPE_F64,   PEN_DTYPE_U8,
                                           PEN_DTYPE_I8,  PEN_DTYPE_I32, PEN_DTYPE_I64,  PEN_DTYPE_STRING};
    struct pen_tensor t = {.dtype = types[next(r) % (sizeof types / sizeof *types)], .rank = next(r) % 6u};
    for (uint32_t d = 0; d < t.rank; d++)
        t.dims[d] = next(r);
    return t;
}

/* Numbers of a model's kind, or bits as they are: NaN, infinities, what is huge. */
static void data_fill(struct pen_tensor *t, uint64_t elements, struct reader *r, bool raw)
{
    uint8_t *bytes = malloc(t->bytes ? t->bytes : 1);
    uint32_t state = 1;
    for (size_t i = 0; bytes && i < t->bytes; i++) {
        state = state * 1664525u + 1013904223u + next(r);
        bytes[i] = (uint8_t)(state >> 24);
    }
    for (uint64_t i = 0; bytes && !raw && t->dtype == PEN_DTYPE_F32 && i < elements; i++) {
        float value = (float)((int)bytes[4 * i] - 100) / 24.0f;
        memcpy(bytes + 4 * i, &value, sizeof value);
    }
    t->data = bytes;
}

static size_t outputs_read(struct reader *r, uint8_t flags, struct pen_tensor outputs[OUTPUTS_MAX])
{
    static const char *const names[OUTPUTS_MAX] = {"o0", "o1", "o2", "o3", "o4", "o5"};
    size_t count = 1u + next(r) % OUTPUTS_MAX;
    uint64_t elements[OUTPUTS_MAX];
    for (size_t i = 0; i < count; i++) {
        outputs[i] = output_of(r);
        outputs[i].name = names[i];
        if (outputs[i].dtype == PEN_DTYPE_STRING || pen_tensor_elements(&outputs[i], &elements[i]) != PEN_OK ||
            elements[i] > ELEMENTS_MAX || pen_dtype_bytes(outputs[i].dtype, elements[i], &outputs[i].bytes) != 0)
            return 0;
    }
    for (size_t i = 0; i < count; i++)
        data_fill(&outputs[i], elements[i], r, flags & RAW);
    return count;
}

static void result_check(const struct pen_tensor *t)
{
    uint64_t elements = 0;
    size_t bytes = 0;
    if (pen_tensor_check(t, NULL) != PEN_OK)
        abort();
    if (t->dtype != PEN_DTYPE_STRING) {
        if (pen_tensor_elements(t, &elements) != PEN_OK || pen_dtype_bytes(t->dtype, elements, &bytes) != 0 ||
            bytes != t->bytes)
            abort();
        return;
    }
    const uint8_t *at = t->data, *end = at + t->bytes;
    for (int64_t row = 0; row < t->dims[0]; row++) {
        uint32_t length = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        if (length > (size_t)(end - at) - 4)
            abort();
        cJSON *json = at[4] == '{' ? cJSON_ParseWithLength((const char *)at + 4, length) : NULL;
        if (at[4] == '{' && !json)
            abort();
        cJSON_Delete(json);
        at += 4 + length;
    }
}

static void answer_try(const struct answer *answer, const struct answer_job *job)
{
    struct pen_tensor results[ANSWER_OUTPUTS_MAX];
    struct pen_error error = {.text = ""};
    size_t count = 0;
    struct answer_work *work = answer_work_new();
    const struct pen_tensor *told = answer_outputs(answer, &count);
    if (!work || count == 0 || count > ANSWER_OUTPUTS_MAX)
        abort();
    for (int turn = 0; turn < 2; turn++) { /* memory that is used again */
        enum pen_status status = answer_run(answer, work, job, results, &error);
        if (status != PEN_OK && !error.text[0])
            abort();
        for (size_t i = 0; status == PEN_OK && i < count; i++) {
            if (results[i].dtype != told[i].dtype || results[i].dims[0] != job->rows)
                abort();
            result_check(&results[i]);
        }
    }
    answer_work_free(work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char cat[] = "cat", dog[] = "d\"og", *labels[] = {cat, dog};
    static struct classes_quant quants[OUTPUTS_MAX];
    struct pen_tensor outputs[OUTPUTS_MAX] = {{.name = NULL}}, known[OUTPUTS_MAX];
    struct pen_error error = {.text = ""};
    struct answer *answer = NULL;
    const uint8_t *zero = memchr(data, 0, size);
    if (!zero)
        return 0;
    struct reader r = {zero + 1, data + size};
    uint8_t flags = next(&r);
    const struct answer_map map = {.width = 100, .height = 50, .m = {2, 0.1, -3, -0.1, 2, 1}};
    struct answer_model model = {.batched = flags & BATCHED};
    struct answer_job job = {.outputs = outputs, .rows = 1u + next(&r) % 3u};
    model.height = 4u * next(&r);
    model.width = 4u * next(&r);
    model.labels = labels;
    model.labels_count = flags & LABELLED ? 2 : 0;
    job.count = model.outputs_count = outputs_read(&r, flags, outputs);
    struct answer_map maps[3] = {map, map, map};
    job.maps = flags & MAPPED ? maps : NULL;
    for (size_t i = 0; i < job.count; i++) {
        quants[i] = (struct classes_quant){.known = flags & QUANTISED, .scale = 0.5f, .zero_point = 3};
        known[i] = outputs[i];
        for (uint32_t d = 0; d < known[i].rank; d++)
            known[i].dims[d] = (d == 0 && (flags & BATCHED)) || (flags & LATE) ? -1 : known[i].dims[d];
    }
    model.outputs = known;
    model.quants = quants;
    if (!(flags & BATCHED))
        job.rows = 1;
    bool rows_fit = job.count > 0;
    for (size_t i = 0; i < job.count; i++) /* a run of the engine gives each job its rows */
        rows_fit &= !(flags & BATCHED) || (outputs[i].rank > 0 && outputs[i].dims[0] == job.rows);
    if (rows_fit) {
        enum pen_status status = answer_new((const char *)data, &model, &answer, &error);
        if ((status == PEN_OK) != (answer != NULL) || (status != PEN_OK && !error.text[0]))
            abort();
        if (answer)
            answer_try(answer, &job);
        answer_free(answer);
    }
    for (size_t i = 0; i < job.count; i++)
        free((void *)(uintptr_t)outputs[i].data);
    return 0;
}
