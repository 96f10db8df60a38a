/* points.c - the step `points`: an output that is a list of points of the whole picture, and another that says whether there is anything. */
#include "parts.h"

static enum pen_status presence_read(const struct step_points *step, const struct answer_row *row, float *ret_score,
                                     struct pen_error *reterr)
{
    const struct answer_view *view = row_view(row, &step->presence);
    *ret_score = 1;
    if (step->presence.count == 0)
        return PEN_OK;
    if (view->count != 1)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "presence has %zu numbers a row, and not one", view->count);
    *ret_score = answer_activate(view->data[0], step->presence_activation);
    return PEN_OK;
}

static enum pen_status points_run(const struct answer *answer, const struct answer_step *compiled,
                                  struct answer_row *row, struct pen_error *reterr)
{
    const struct step_points *step = &compiled->points;
    const struct answer_view *view = row_view(row, &step->from);
    float sx = step->normalized ? (float)answer->width : 1, sy = step->normalized ? (float)answer->height : 1;
    enum pen_status status = presence_read(step, row, &row->points_score, reterr);
    if (status != PEN_OK)
        return status;
    if (view->count != (size_t)answer->points_count * step->values)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the output has %zu numbers a row, and %u points have %u each",
                             view->count, answer->points_count, step->values);
    float *points = row_take(row, answer->points_count, ANSWER_POINT_VALUES * sizeof *points, reterr);
    if (!points)
        return row_short(row);
    for (uint32_t i = 0; i < answer->points_count; i++) {
        const float *from = view->data + (size_t)i * step->values;
        float *to = points + (size_t)i * ANSWER_POINT_VALUES;
        to[0] = from[step->yx ? 1 : 0] * sx;
        to[1] = from[step->yx ? 0 : 1] * sy;
        to[2] = step->values > 2 ? from[2] : step->scored ? 1 : 0;
    }
    if ((double)row->points_score >= step->score)
        row->points = points;
    return PEN_OK;
}

static void points_defaults(struct answer_step *step)
{
    step->points.values = 2;
}

static enum pen_status points_compile(struct answer_reader *reader, struct answer_step *step)
{
    struct answer *answer = reader->answer;
    const struct pen_tensor *tensor = &answer->model_outputs[step->points.from.output[0]];
    int64_t numbers = 1;
    if (step->points.presence_activation == ANSWER_SOFTMAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "presence_activation must be none or sigmoid");
    for (uint32_t d = tensor->rank > 1 ? 1 : 0; d < tensor->rank && numbers > 0; d++)
        numbers = tensor->dims[d] < 0 ? -1 : numbers * tensor->dims[d];
    bool known = numbers > 0 && tensor->rank > 0;
    if (known && answer->points_count == 0)
        answer->points_count = (uint32_t)(numbers / step->points.values);
    if (answer->points_count == 0 || answer->points_count > ANSWER_POINTS_MAX ||
        (known && numbers != (int64_t)answer->points_count * step->points.values))
        return reader_refuse(reader, PEN_ERR_SHAPE,
                             "output '%.128s' has %lld numbers a row; give values (numbers of a point) and count (at "
                             "most %u points) that suit it",
                             tensor->name, (long long)numbers, ANSWER_POINTS_MAX);
    return step->points.normalized ? reader_needs_size(reader) : PEN_OK;
}

static enum pen_status read_count(struct answer_reader *reader, const cJSON *value, const char *path)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : 0;
    if (!(number >= 1 && number <= ANSWER_POINTS_MAX) || number != (uint32_t)number)
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be a whole number from 1 to %u", path,
                             ANSWER_POINTS_MAX);
    reader->answer->points_count = (uint32_t)number;
    return PEN_OK;
}

static const struct answer_option points_options[] = {
    {.name = "output", .type = OPTION_SOURCE, .offset = offsetof(struct step_points, from), .needed = true},
    {.name = "count", .type = OPTION_READER, .read = read_count},
    {.name = "values", .type = OPTION_WHOLE, .offset = offsetof(struct step_points, values), .min = 2, .max = 16},
    {.name = "yx", .type = OPTION_FLAG, .offset = offsetof(struct step_points, yx)},
    {.name = "scored", .type = OPTION_FLAG, .offset = offsetof(struct step_points, scored)},
    {.name = "normalized", .type = OPTION_FLAG, .offset = offsetof(struct step_points, normalized)},
    {.name = "presence", .type = OPTION_SOURCE, .offset = offsetof(struct step_points, presence)},
    {.name = "presence_activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_points, presence_activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "score", .type = OPTION_NUMBER, .offset = offsetof(struct step_points, score), .min = 0, .max = 1},
    {.name = NULL},
};
const struct answer_kind kind_points = {.name = "points",
                                        .options = points_options,
                                        .defaults = points_defaults,
                                        .compile = points_compile,
                                        .run = points_run,
                                        .produces = ANSWER_POINTS};
