/* answer.c - compiles the steps, and runs them row by row. */
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

#define TEXT_BYTES_MAX ((size_t)64 * 1024 * 1024)

static const struct answer_kind *const kinds[] = {&kind_softmax,   &kind_sigmoid, &kind_top_k,  &kind_boxes,
                                                  &kind_centernet, &kind_nms,     &kind_points, &kind_poses,
                                                  &kind_mask,      NULL};

/* ---- compiled ---- */

static enum pen_status kind_find(struct answer_reader *reader, const char *text)
{
    char names[200] = "";
    struct nearest nearest;
    nearest_begin_strict(&nearest, text, strlen(text), 3);
    for (size_t i = 0; kinds[i]; i++) {
        size_t used = strlen(names);
        if (strcmp(kinds[i]->name, text) == 0) {
            reader->step->kind = kinds[i];
            return PEN_OK;
        }
        nearest_offer(&nearest, kinds[i]->name);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", kinds[i]->name);
    }
    return reader_refuse(reader, PEN_ERR_INVALID, "there is no step '%.64s'%s%s%s; there are %s", text,
                         nearest.found ? ", did you mean '" : "", nearest.found ? nearest.found : "",
                         nearest.found ? "'?" : "", names);
}

/* What is there must not be made again; nms needs objects. */
static enum pen_status order_check(struct answer_reader *reader, const struct answer_kind *kind)
{
    struct answer *answer = reader->answer;
    if (kind == &kind_nms && !(answer->produces & ANSWER_OBJECTS))
        return reader_refuse(reader, PEN_ERR_INVALID, "no step before it finds objects");
    if (kind == &kind_nms && answer->instances)
        return reader_refuse(reader, PEN_ERR_INVALID, "the mask has the numbers of objects: nms must come before it");
    if (answer->produces & kind->produces)
        return reader_refuse(reader, PEN_ERR_INVALID, "a step before it gives the same kind of result");
    answer->produces |= kind->produces;
    return PEN_OK;
}

static enum pen_status step_read(struct answer_reader *reader, const cJSON *item)
{
    struct answer *answer = reader->answer;
    struct answer_step *step = &answer->steps[answer->steps_count];
    *step = (struct answer_step){.number = (uint32_t)answer->steps_count};
    reader->step = step;
    if (!cJSON_IsObject(item) || !item->child || item->child->next)
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "it must be an object of one step, such as {\"nms\": {\"iou\": 0.5}}");
    enum pen_status status = kind_find(reader, item->child->string);
    if (status != PEN_OK)
        return status;
    answer->steps_count++; /* from here on it is freed with the others */
    if (step->kind->defaults)
        step->kind->defaults(step);
    status = options_read(reader, item->child, step->kind->options, &step->activate, NULL);
    if (status == PEN_OK)
        status = order_check(reader, step->kind);
    if (status == PEN_OK && step->kind->compile)
        status = step->kind->compile(reader, step);
    reader->step = NULL;
    return status;
}

static enum pen_status read_steps(struct answer_reader *reader, const cJSON *value, const char *path)
{
    int count = cJSON_IsArray(value) ? cJSON_GetArraySize(value) : 0;
    if (count < 1 || count > (int)ANSWER_STEPS_MAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be a list of 1 to %u steps", path, ANSWER_STEPS_MAX);
    return PEN_OK; /* read when size is known: keys come in any order */
}

static enum pen_status read_size(struct answer_reader *reader, const cJSON *value, const char *path)
{
    struct answer_numbers size = {.count = 0};
    enum pen_status status = read_numbers(reader, value, path, 1, 65535, &size);
    if (status == PEN_OK && size.count != 2)
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be [height, width]", path);
    reader->answer->height = (uint32_t)size.value[0];
    reader->answer->width = (uint32_t)size.value[1];
    return status;
}

static enum pen_status read_skeleton(struct answer_reader *reader, const cJSON *value, const char *path)
{
    return read_lines(reader, value, path, reader->answer->skeleton, &reader->answer->skeleton_count);
}

static enum pen_status read_format(struct answer_reader *reader, const cJSON *value, const char *path)
{
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    reader->answer->json = strcmp(text, "json") == 0;
    if (reader->answer->json || strcmp(text, "tensors") == 0)
        return PEN_OK;
    return reader_refuse(reader, PEN_ERR_INVALID, "%s is '%.64s'; it must be one of tensors|json", path, text);
}

static const struct answer_option whole_options[] = {
    {.name = "steps", .type = OPTION_READER, .read = read_steps, .needed = true},
    {.name = "format", .type = OPTION_READER, .read = read_format},
    {.name = "size", .type = OPTION_READER, .read = read_size},
    {.name = "clip", .type = OPTION_FLAG, .offset = offsetof(struct answer, clip)},
    {.name = "names", .type = OPTION_READER, .read = read_names},
    {.name = "skeleton", .type = OPTION_READER, .read = read_skeleton},
    {.name = NULL},
};

static enum pen_status document_compile(struct answer_reader *reader, const cJSON *document)
{
    struct answer *answer = reader->answer;
    enum pen_status status = options_read(reader, document, whole_options, answer, NULL);
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(document, "steps");
    for (const cJSON *item = status == PEN_OK ? steps->child : NULL; item && status == PEN_OK; item = item->next)
        status = step_read(reader, item);
    if (status == PEN_OK && !answer->produces)
        status = reader_refuse(reader, PEN_ERR_INVALID,
                               "no step gives a result: add one of top_k, boxes, centernet, points, poses, mask");
    if (status == PEN_OK && !answer->json && answer->produces & ANSWER_OBJECTS &&
        answer->produces & (ANSWER_CLASSES | ANSWER_POINTS))
        status =
            reader_refuse(reader, PEN_ERR_INVALID,
                          "objects beside classes or points have no tensors of their own: say \"format\": \"json\"");
    for (uint32_t i = 0; status == PEN_OK && i < answer->skeleton_count; i++)
        if (answer->skeleton[i].from >= answer->points_count || answer->skeleton[i].to >= answer->points_count)
            status =
                reader_refuse(reader, PEN_ERR_INVALID, "skeleton[%u] names a point that is not there: there are %u", i,
                              answer->points_count);
    return status;
}

/* The outputs with their names, in one block. */
static bool outputs_copy(struct answer *answer, const struct answer_model *model)
{
    size_t bytes = (model->outputs_count + 1) * sizeof *model->outputs;
    for (size_t i = 0; i < model->outputs_count; i++)
        bytes += strlen(model->outputs[i].name) + 1;
    answer->model_outputs = calloc(1, bytes);
    char *name = answer->model_outputs ? (char *)(answer->model_outputs + model->outputs_count + 1) : NULL;
    for (size_t i = 0; name && i < model->outputs_count; i++) {
        answer->model_outputs[i] = model->outputs[i];
        answer->model_outputs[i].name = name;
        name = stpcpy(name, model->outputs[i].name) + 1;
        answer->quants[i] = model->quants[i];
    }
    answer->model_outputs_count = model->outputs_count;
    return answer->model_outputs != NULL;
}

static struct answer *answer_open(const struct answer_model *model)
{
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return NULL;
    answer->height = model->height;
    answer->width = model->width;
    answer->batched = model->batched;
    answer->labels = model->labels;
    answer->labels_count = model->labels_count;
    if (outputs_copy(answer, model))
        return answer;
    free(answer);
    return NULL;
}

enum pen_status answer_new(const char *text, const struct answer_model *model, struct answer **ret_answer,
                           struct pen_error *reterr)
{
    if (model->outputs_count > ANSWER_TENSORS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "answer: the model has more than %u outputs",
                             ANSWER_TENSORS_MAX);
    cJSON *document = cJSON_Parse(text);
    struct answer *answer = document ? answer_open(model) : NULL;
    if (!answer) {
        cJSON_Delete(document);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "answer: no memory for its steps");
    }
    struct answer_reader reader = {.answer = answer, .reterr = reterr};
    enum pen_status status = document_compile(&reader, document);
    cJSON_Delete(document);
    if (status != PEN_OK) {
        answer_free(answer);
        return status;
    }
    pack_outputs(answer);
    *ret_answer = answer;
    return PEN_OK;
}

void answer_free(struct answer *answer)
{
    for (size_t i = 0; answer && i < answer->steps_count; i++)
        if (answer->steps[i].kind == &kind_boxes)
            free(answer->steps[i].boxes.anchors);
    if (answer)
        free(answer->model_outputs);
    free(answer);
}

const struct pen_tensor *answer_outputs(const struct answer *answer, size_t *ret_count)
{
    *ret_count = answer->outputs_count;
    return answer->outputs;
}

/* ---- run ---- */

struct answer_work *answer_work_new(void)
{
    struct answer_work *work = calloc(1, sizeof *work);
    if (work)
        work->scratch.limit = work->kept.limit = (ANSWER_BYTES_MAX - TEXT_BYTES_MAX) / 2;
    return work;
}

void answer_work_free(struct answer_work *work)
{
    if (!work)
        return;
    arena_fini(&work->scratch);
    arena_fini(&work->kept);
    free(work->text.bytes);
    free(work);
}

void text_add(struct answer_text *text, const void *bytes, size_t count)
{
    if (count > text->room - text->used) {
        size_t room = text->room ? text->room : 4096;
        while (room - text->used < count && room < TEXT_BYTES_MAX)
            room *= 2;
        bool fits = room - text->used >= count;
        char *more = fits ? realloc(text->bytes, room) : NULL;
        if (!more) {
            text->cut = fits ? PEN_ERR_NO_MEMORY : PEN_ERR_TOO_LARGE;
            return;
        }
        text->bytes = more;
        text->room = room;
    }
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
}

enum pen_status answer_lacks(bool starved, struct pen_error *reterr)
{
    if (starved)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps after the model");
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "the steps after the model need more than the %u MiB that one answer may take",
                         ANSWER_BYTES_MAX >> 20);
}

enum pen_status row_short(const struct answer_row *row)
{
    return answer_lacks(row->work->scratch.starved, NULL);
}

void *row_take(struct answer_row *row, size_t count, size_t size, struct pen_error *reterr)
{
    void *memory = arena_take(&row->work->scratch, count ? count : 1, size);
    if (!memory)
        answer_lacks(row->work->scratch.starved, reterr);
    return memory;
}

const struct answer_view *row_view(const struct answer_row *row, const struct answer_sources *from)
{
    return &row->views[from->output[0]];
}

static float number_of(const struct pen_tensor *output, const struct classes_quant *quant, size_t index)
{
    double value = tensor_value(output, index);
    return (float)(quant->known ? (value - quant->zero_point) * (double)quant->scale : value);
}

/* Row `index` of the output; floats are not copied. Outputs without a batch have one row. */
static enum pen_status view_open(const struct answer *answer, struct answer_row *row, size_t place,
                                 const struct pen_tensor *output, uint32_t index, uint32_t rows,
                                 struct pen_error *reterr)
{
    struct answer_view *view = &row->views[place];
    bool cut =
        output->rank > 0 && output->dims[0] == (int64_t)rows && (answer->batched || rows > 1 || output->rank > 1);
    uint64_t elements = 0;
    if (rows > 1 && !cut)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "output '%.128s' has not one row for each of the %u of the job",
                             output->name ? output->name : answer->model_outputs[place].name, rows);
    if (pen_tensor_elements(output, &elements) != PEN_OK || output->dtype == PEN_DTYPE_STRING)
        return pen_error_set(reterr, PEN_ERR_DTYPE, "output '%.128s' has no numbers",
                             answer->model_outputs[place].name);
    view->rank = output->rank - (cut ? 1 : 0);
    memcpy(view->dims, output->dims + (cut ? 1 : 0), view->rank * sizeof view->dims[0]);
    view->count = (size_t)elements / (cut ? rows : 1);
    if (output->dtype == PEN_DTYPE_F32 && (uintptr_t)output->data % sizeof(float) == 0) {
        view->data = (float *)(uintptr_t)output->data + view->count * index;
        view->own = false;
        return PEN_OK;
    }
    view->own = true;
    view->data = row_take(row, view->count, sizeof(float), reterr);
    for (size_t i = 0; view->data && i < view->count; i++)
        view->data[i] = number_of(output, &answer->quants[place], view->count * index + i);
    return view->data ? PEN_OK : row_short(row);
}

static enum pen_status views_open(const struct answer *answer, const struct answer_job *job, uint32_t index,
                                  struct answer_row *row, struct pen_error *reterr)
{
    for (size_t i = 0; i < answer->model_outputs_count; i++) {
        if (!(answer->read & UINT64_C(1) << i))
            continue;
        if (i >= job->count)
            return pen_error_set(reterr, PEN_ERR_SHAPE, "the model gave no output '%.128s'",
                                 answer->model_outputs[i].name);
        enum pen_status status = view_open(answer, row, i, &job->outputs[i], index, job->rows, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static void point_map(const struct answer_map *map, float *x, float *y)
{
    double px = *x, py = *y;
    *x = (float)(map->m[0] * px + map->m[1] * py + map->m[2]);
    *y = (float)(map->m[3] * px + map->m[4] * py + map->m[5]);
}

static void points_map(const struct answer_map *map, float *points, uint32_t count)
{
    for (uint32_t i = 0; points && i < count; i++)
        point_map(map, &points[i * ANSWER_POINT_VALUES], &points[i * ANSWER_POINT_VALUES + 1]);
}

static float clip_to(float value, double limit)
{
    return value < 0 ? 0 : (double)value > limit ? (float)limit : value;
}

/* Coordinates of the input become those of the picture; a turned box becomes the upright one around it. */
static void box_map(const struct answer_map *map, float box[4])
{
    float x[4] = {box[0], box[2], box[2], box[0]}, y[4] = {box[1], box[1], box[3], box[3]};
    for (int i = 0; i < 4; i++) {
        point_map(map, &x[i], &y[i]);
        box[0] = i == 0 || x[i] < box[0] ? x[i] : box[0];
        box[1] = i == 0 || y[i] < box[1] ? y[i] : box[1];
        box[2] = i == 0 || x[i] > box[2] ? x[i] : box[2];
        box[3] = i == 0 || y[i] > box[3] ? y[i] : box[3];
    }
}

/* Corners in the picture, and the upright box around them. */
static void turned_map(const struct answer_map *map, struct answer_object *object)
{
    float *c = object->corners, *box = object->box;
    turned_corners(object, c);
    for (int i = 0; i < 4; i++) {
        if (map)
            point_map(map, &c[2 * i], &c[2 * i + 1]);
        box[0] = i == 0 || c[2 * i] < box[0] ? c[2 * i] : box[0];
        box[1] = i == 0 || c[2 * i + 1] < box[1] ? c[2 * i + 1] : box[1];
        box[2] = i == 0 || c[2 * i] > box[2] ? c[2 * i] : box[2];
        box[3] = i == 0 || c[2 * i + 1] > box[3] ? c[2 * i + 1] : box[3];
    }
}

static void row_map(const struct answer *answer, struct answer_row *row)
{
    const struct answer_map *map = row->map;
    double width = map ? map->width : answer->width, height = map ? map->height : answer->height;
    for (size_t i = 0; i < row->objects_count; i++) {
        struct answer_object *object = &row->objects[i];
        if (answer->turned)
            turned_map(map, object);
        if (map) {
            if (!answer->turned)
                box_map(map, object->box);
            points_map(map, object->points, answer->points_count);
        }
        for (int j = 0; answer->clip && j < 4; j++)
            object->box[j] = clip_to(object->box[j], j % 2 ? height : width);
    }
    if (map)
        points_map(map, row->points, answer->points_count);
}

static enum pen_status row_run(const struct answer *answer, const struct answer_job *job, uint32_t index,
                               struct answer_row *row, struct pen_error *reterr)
{
    struct pen_error inner = {0};
    enum pen_status status = views_open(answer, job, index, row, reterr);
    for (size_t i = 0; i < answer->steps_count && status == PEN_OK; i++) {
        const struct answer_step *step = &answer->steps[i];
        status = step->kind->run(answer, step, row, &inner);
        if (status != PEN_OK)
            pen_error_set(reterr, status, "answer.steps[%u] (%s): %.800s", step->number, step->kind->name, inner.text);
    }
    if (status == PEN_OK)
        row_map(answer, row);
    return status;
}

enum pen_status answer_run(const struct answer *answer, struct answer_work *work, const struct answer_job *job,
                           struct pen_tensor *ret_outputs, struct pen_error *reterr)
{
    arena_reset(&work->kept);
    work->text.used = 0;
    work->text.cut = PEN_OK;
    enum pen_status status = pack_open(answer, work, job->rows, ret_outputs, reterr);
    for (uint32_t i = 0; i < job->rows && status == PEN_OK; i++) {
        struct answer_row row = {.work = work, .map = job->maps ? &job->maps[i] : NULL};
        arena_reset(&work->scratch);
        status = row_run(answer, job, i, &row, reterr);
        if (status == PEN_OK)
            status = pack_row(answer, &row, i, job->rows, ret_outputs, reterr);
    }
    if (status == PEN_OK)
        pack_close(answer, work, ret_outputs);
    return status;
}
