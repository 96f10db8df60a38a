/*
 * poses.c - people by PoseNet's maps (Papandreou et al., "PersonLab", 2018): a heat map for each kind of point, offsets that say where in a cell the point lies, and
 * displacements from one point of a person to the next along a tree.
 *
 * Offsets are [h, w, 2 K], displacements [h, w, 2 E]: first all y, then all x, in input pixels. A cell's point lies at cell * stride. Several people: each local
 * maximum of a heat map, the best first, is the root of a person unless a person that was found has the same point within `radius`; displacements lead from it to the other points.
 */
#include "matrix.h"

#include <math.h>
#include <string.h>

struct maps {
    const struct step_poses *step;
    const float *heat, *offsets, *forward, *backward;
    size_t height, width, kinds;
};

static float heat_at(const struct maps *m, size_t y, size_t x, size_t kind)
{
    return answer_activate(m->heat[(y * m->width + x) * m->kinds + kind], m->step->activation);
}

static size_t cell_of(double position, double stride, size_t cells)
{
    double cell = rint(position / stride); /* halves to even, as NumPy rounds */
    return !(cell > 0) ? 0 : cell > (double)(cells - 1) ? cells - 1 : (size_t)cell;
}

static void offset_point(const struct maps *m, size_t y, size_t x, size_t kind, float point[3])
{
    const float *offset = m->offsets + (y * m->width + x) * 2 * m->kinds;
    point[0] = (float)((double)x * m->step->stride + (double)offset[m->kinds + kind]);
    point[1] = (float)((double)y * m->step->stride + (double)offset[kind]);
    point[2] = heat_at(m, y, x, kind);
}

/* ---- one person ---- */

static void single_find(const struct maps *m, float *points)
{
    for (size_t kind = 0; kind < m->kinds; kind++) {
        size_t best = 0;
        for (size_t cell = 1; cell < m->height * m->width; cell++)
            if (m->heat[cell * m->kinds + kind] > m->heat[best * m->kinds + kind])
                best = cell;
        offset_point(m, best / m->width, best % m->width, kind, points + kind * ANSWER_POINT_VALUES);
    }
}

/* ---- several ---- */

static bool is_peak(const struct maps *m, size_t y, size_t x, size_t kind)
{
    float here = m->heat[(y * m->width + x) * m->kinds + kind];
    for (size_t ny = y ? y - 1 : 0; ny <= y + 1 && ny < m->height; ny++)
        for (size_t nx = x ? x - 1 : 0; nx <= x + 1 && nx < m->width; nx++)
            if (m->heat[(ny * m->width + nx) * m->kinds + kind] > here)
                return false;
    return true;
}

static void peaks_offer(const struct maps *m, struct candidates *list)
{
    for (size_t y = 0; y < m->height; y++)
        for (size_t x = 0; x < m->width; x++)
            for (size_t kind = 0; kind < m->kinds; kind++) {
                float score = heat_at(m, y, x, kind);
                if ((double)score >= m->step->point_score && is_peak(m, y, x, kind))
                    candidates_offer(list, (struct candidate){.score = score,
                                                              .class = (int32_t)kind,
                                                              .row = (uint32_t)(y * m->width + x),
                                                              .place = (y * m->width + x) * m->kinds + kind});
            }
}

/* From one point along an edge to another, corrected by the offsets where it arrives. */
static void follow(const struct maps *m, const float *displacements, size_t edge, const float from[3], size_t kind,
                   float to[3])
{
    double stride = m->step->stride;
    size_t y = cell_of((double)from[1], stride, m->height), x = cell_of((double)from[0], stride, m->width);
    const float *cell = displacements + (y * m->width + x) * 2 * m->step->edges_count;
    float point[3] = {from[0] + cell[m->step->edges_count + edge], from[1] + cell[edge], 0};
    for (uint32_t i = 0; i < m->step->refine; i++)
        offset_point(m, cell_of((double)point[1], stride, m->height), cell_of((double)point[0], stride, m->width), kind,
                     point);
    memcpy(to, point, 2 * sizeof *to);
    to[2] = heat_at(m, cell_of((double)point[1], stride, m->height), cell_of((double)point[0], stride, m->width), kind);
}

/* Up to the tree's root, then down. A point that was reached stays. */
static void person_follow(const struct maps *m, float *points, bool *known)
{
    const struct step_poses *step = m->step;
    for (size_t i = step->edges_count; i-- > 0;) {
        uint32_t from = step->edges[i].to, to = step->edges[i].from;
        if (known[from] && !known[to])
            follow(m, m->backward, i, points + from * ANSWER_POINT_VALUES, to, points + to * ANSWER_POINT_VALUES);
        known[to] |= known[from];
    }
    for (size_t i = 0; i < step->edges_count; i++) {
        uint32_t from = step->edges[i].from, to = step->edges[i].to;
        if (known[from] && !known[to])
            follow(m, m->forward, i, points + from * ANSWER_POINT_VALUES, to, points + to * ANSWER_POINT_VALUES);
        known[to] |= known[from];
    }
}

static bool point_taken(const struct maps *m, const struct answer_row *row, size_t kind, const float point[3])
{
    for (size_t i = 0; i < row->objects_count; i++) {
        const float *other = row->objects[i].points + kind * ANSWER_POINT_VALUES;
        double dx = (double)(other[0] - point[0]), dy = (double)(other[1] - point[1]);
        if (dx * dx + dy * dy <= m->step->radius * m->step->radius)
            return true;
    }
    return false;
}

/* The mean score of its points, without those that a better person has. */
static float person_score(const struct maps *m, const struct answer_row *row, const float *points)
{
    double sum = 0;
    for (size_t kind = 0; kind < m->kinds; kind++)
        if (!point_taken(m, row, kind, points + kind * ANSWER_POINT_VALUES))
            sum += (double)points[kind * ANSWER_POINT_VALUES + 2];
    return (float)(sum / (double)m->kinds);
}

static void box_around(const float *points, size_t count, float box[4])
{
    box[0] = box[2] = points[0];
    box[1] = box[3] = points[1];
    for (size_t i = 1; i < count; i++) {
        const float *point = points + i * ANSWER_POINT_VALUES;
        box[0] = fminf(box[0], point[0]);
        box[1] = fminf(box[1], point[1]);
        box[2] = fmaxf(box[2], point[0]);
        box[3] = fmaxf(box[3], point[1]);
    }
}

static void person_add(struct answer_row *row, float score, size_t kinds)
{
    struct answer_object *person = &row->objects[row->objects_count++];
    person->score = score;
    box_around(person->points, kinds, person->box);
}

static enum pen_status several_find(const struct maps *m, struct answer_row *row, struct pen_error *reterr)
{
    struct candidates list;
    enum pen_status status = candidates_open(row, ANSWER_CANDIDATES_MAX, &list, reterr);
    if (status != PEN_OK)
        return status;
    peaks_offer(m, &list);
    candidates_sort(&list);
    for (size_t i = 0; i < list.count && row->objects_count < m->step->max; i++) {
        bool known[ANSWER_NUMBERS_MAX] = {false};
        size_t kind = (size_t)list.list[i].class;
        float *points = row->objects[row->objects_count].points, *root = points + kind * ANSWER_POINT_VALUES;
        float at[3];
        offset_point(m, list.list[i].row / m->width, list.list[i].row % m->width, kind, at);
        if (point_taken(m, row, kind, at))
            continue;
        memset(points, 0, m->kinds * ANSWER_POINT_VALUES * sizeof *points); /* of one that was not kept */
        memcpy(root, at, sizeof at);
        known[kind] = true;
        person_follow(m, points, known);
        float score = person_score(m, row, points);
        if ((double)score >= m->step->score)
            person_add(row, score, m->kinds);
    }
    return PEN_OK;
}

/* ---- the step ---- */

static enum pen_status maps_open(const struct answer *answer, const struct step_poses *step,
                                 const struct answer_row *row, struct maps *m, struct pen_error *reterr)
{
    const struct answer_view *heat = row_view(row, &step->heat), *offsets = row_view(row, &step->offsets);
    const struct answer_view *forward = step->single ? offsets : row_view(row, &step->forward);
    const struct answer_view *backward = step->single ? offsets : row_view(row, &step->backward);
    size_t cells = heat->rank == 3 ? (size_t)heat->dims[0] * (size_t)heat->dims[1] : 0;
    size_t edges = step->single ? answer->points_count : step->edges_count;
    if (cells == 0 || heat->dims[2] != (int64_t)answer->points_count)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "heat must be [height, width, %u] beside the batch",
                             answer->points_count);
    if (offsets->count != cells * 2 * answer->points_count || forward->count != cells * 2 * edges ||
        backward->count != cells * 2 * edges)
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "offsets must have %u and displacements %zu channels on the %zu cells of the heat maps",
                             2 * answer->points_count, 2 * edges, cells);
    *m = (struct maps){.step = step,
                       .heat = heat->data,
                       .offsets = offsets->data,
                       .forward = forward->data,
                       .backward = backward->data,
                       .height = (size_t)heat->dims[0],
                       .width = (size_t)heat->dims[1],
                       .kinds = answer->points_count};
    return PEN_OK;
}

static enum pen_status people_room(const struct step_poses *step, struct answer_row *row, size_t kinds,
                                   struct pen_error *reterr)
{
    size_t values = kinds * ANSWER_POINT_VALUES, people = step->single ? 1 : step->max;
    row->objects = row_take(row, people, sizeof *row->objects, reterr);
    float *points = row->objects ? row_take(row, people * values, sizeof *points, reterr) : NULL;
    for (size_t i = 0; points && i < people; i++)
        row->objects[i] = (struct answer_object){.points = points + i * values};
    if (points)
        memset(points, 0, people * values * sizeof *points);
    return points ? PEN_OK : row_short(row);
}

static enum pen_status poses_run(const struct answer *answer, const struct answer_step *compiled,
                                 struct answer_row *row, struct pen_error *reterr)
{
    const struct step_poses *step = &compiled->poses;
    struct maps m = {.kinds = 0};
    enum pen_status status = maps_open(answer, step, row, &m, reterr);
    if (status == PEN_OK)
        status = people_room(step, row, m.kinds, reterr);
    if (status != PEN_OK || !step->single)
        return status == PEN_OK ? several_find(&m, row, reterr) : status;
    single_find(&m, row->objects[0].points);
    float score = person_score(&m, row, row->objects[0].points);
    if ((double)score >= step->score)
        person_add(row, score, m.kinds);
    return PEN_OK;
}

/* PoseNet's tree of 17 points: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles, each left then right. */
static const struct answer_line posenet_edges[] = {{0, 1},  {1, 3},  {0, 2},   {2, 4},   {0, 5}, {5, 7},
                                                   {7, 9},  {5, 11}, {11, 13}, {13, 15}, {0, 6}, {6, 8},
                                                   {8, 10}, {6, 12}, {12, 14}, {14, 16}};

static void poses_defaults(struct answer_step *step)
{
    struct step_poses *poses = &step->poses;
    *poses = (struct step_poses){.max = 10,
                                 .activation = ANSWER_SIGMOID,
                                 .refine = 2,
                                 .stride = 16,
                                 .score = 0.2,
                                 .point_score = 0.5,
                                 .radius = 20};
    poses->edges_count = sizeof posenet_edges / sizeof *posenet_edges;
    memcpy(poses->edges, posenet_edges, sizeof posenet_edges);
}

static enum pen_status read_edges(struct answer_reader *reader, const cJSON *value, const char *path)
{
    return read_lines(reader, value, path, reader->step->poses.edges, &reader->step->poses.edges_count);
}

/* The number of points is that of the heat map's channels. */
static enum pen_status poses_points(struct answer_reader *reader, const struct step_poses *poses)
{
    const struct pen_tensor *heat = &reader->answer->model_outputs[poses->heat.output[0]];
    int64_t kinds = heat->rank ? heat->dims[heat->rank - 1] : -1;
    if (kinds < 1 || kinds > (int64_t)ANSWER_NUMBERS_MAX)
        return reader_refuse(reader, PEN_ERR_SHAPE,
                             "output '%.128s' must say how many points there are (1 to %u): its last "
                             "dimension is %lld",
                             heat->name, ANSWER_NUMBERS_MAX, (long long)kinds);
    reader->answer->points_count = (uint32_t)kinds;
    for (uint32_t i = 0; !poses->single && i < poses->edges_count; i++)
        if (poses->edges[i].from >= kinds || poses->edges[i].to >= kinds)
            return reader_refuse(reader, PEN_ERR_INVALID, "edges[%u] names a point that is not there: there are %lld",
                                 i, (long long)kinds);
    return PEN_OK;
}

/* PoseNet's own lines between its points, for those who draw. */
static void skeleton_default(struct answer *answer)
{
    static const struct answer_line lines[] = {{5, 6},  {5, 7},   {7, 9},   {6, 8},   {8, 10},  {5, 11},
                                               {6, 12}, {11, 12}, {11, 13}, {13, 15}, {12, 14}, {14, 16}};
    if (answer->skeleton_count || answer->points_count != 17)
        return;
    answer->skeleton_count = sizeof lines / sizeof *lines;
    memcpy(answer->skeleton, lines, sizeof lines);
}

static enum pen_status poses_compile(struct answer_reader *reader, struct answer_step *step)
{
    struct step_poses *poses = &step->poses;
    if (poses->activation == ANSWER_SOFTMAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "activation must be none or sigmoid");
    if (!poses->single && (poses->forward.count == 0 || poses->backward.count == 0))
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "several people need the keys forward and backward; for one person say \"single\": true");
    const struct answer_sources *all[] = {&poses->heat, &poses->offsets, &poses->forward, &poses->backward};
    for (size_t i = 0; i < 4; i++) {
        enum pen_status status = all[i]->count ? reader_needs_rank(reader, all[i]->output[0], 3, 4) : PEN_OK;
        if (status != PEN_OK)
            return status;
    }
    enum pen_status status = poses_points(reader, poses);
    skeleton_default(reader->answer);
    reader->answer->objects_max = poses->single ? 1 : poses->max;
    return status;
}

static const struct answer_option poses_options[] = {
    {.name = "heat", .type = OPTION_SOURCE, .offset = offsetof(struct step_poses, heat), .needed = true},
    {.name = "offsets", .type = OPTION_SOURCE, .offset = offsetof(struct step_poses, offsets), .needed = true},
    {.name = "forward", .type = OPTION_SOURCE, .offset = offsetof(struct step_poses, forward)},
    {.name = "backward", .type = OPTION_SOURCE, .offset = offsetof(struct step_poses, backward)},
    {.name = "edges", .type = OPTION_READER, .read = read_edges},
    {.name = "single", .type = OPTION_FLAG, .offset = offsetof(struct step_poses, single)},
    {.name = "activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_poses, activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "stride", .type = OPTION_NUMBER, .offset = offsetof(struct step_poses, stride), .min = 1, .max = 4096},
    {.name = "score", .type = OPTION_NUMBER, .offset = offsetof(struct step_poses, score), .min = 0, .max = 1},
    {.name = "point_score",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct step_poses, point_score),
     .min = 0,
     .max = 1},
    {.name = "radius", .type = OPTION_NUMBER, .offset = offsetof(struct step_poses, radius), .min = 0, .max = 65536},
    {.name = "refine", .type = OPTION_WHOLE, .offset = offsetof(struct step_poses, refine), .max = 8},
    {.name = "max", .type = OPTION_WHOLE, .offset = offsetof(struct step_poses, max), .min = 1, .max = 100},
    {.name = NULL},
};
const struct answer_kind kind_poses = {.name = "poses",
                                       .options = poses_options,
                                       .defaults = poses_defaults,
                                       .compile = poses_compile,
                                       .run = poses_run,
                                       .produces = ANSWER_OBJECTS};
