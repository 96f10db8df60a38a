/*
 * pose.c - pose PICTURE OUT.png [ENDPOINT [MODEL]]: the people in a picture, 17 keypoints each, as numbers and drawn on it.
 *
 * MODEL (default: posenet) is a PoseNet of TensorFlow.js with output stride 16. For each cell of a grid [h, w], 16 pixels of its input apart, it gives
 *   heatmap [17]        how likely the part is here, a logit
 *   offset [17 y, 17 x] from the cell to the part, in pixels
 *   displacement_fwd, displacement_bwd [16 y, 16 x]  from a part here along each bone to the part at its other end
 * A person begins at the most likely part that belongs to nobody yet; bone by bone the displacements lead to the others. See README.md.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

#define PARTS    17u
#define STRIDE   16u
#define SIDE     257u /* of the shorter side of the network's input, where it takes any 16 k + 1 */
#define SIDE_MAX 1025u
#define SURE     0.5f /* score of a part that is drawn, and of one that a person may begin with */
#define APART    20.0 /* pixels of the input: the same part nearer to a known one is the same person's */
#define PEOPLE   10u

static const char *const names[PARTS] = {"nose",          "left eye",       "right eye",  "left ear",    "right ear",
                                         "left shoulder", "right shoulder", "left elbow", "right elbow", "left wrist",
                                         "right wrist",   "left hip",       "right hip",  "left knee",   "right knee",
                                         "left ankle",    "right ankle"};

/* From the nose outwards, in the order of the displacements. */
static const unsigned bones[][2] = {{0, 1},   {1, 3},   {0, 2}, {2, 4}, {0, 5},  {5, 7},  {7, 9},   {5, 11},
                                    {11, 13}, {13, 15}, {0, 6}, {6, 8}, {8, 10}, {6, 12}, {12, 14}, {14, 16}};
#define BONES (sizeof bones / sizeof *bones)

/* What is drawn: the displacements' bones run from the nose to the shoulders, a skeleton has a collar and a pelvis. */
static const unsigned lines[][2] = {{5, 6},   {5, 7},   {7, 9},   {6, 8},   {8, 10}, {5, 11}, {6, 12}, {11, 12},
                                    {11, 13}, {13, 15}, {12, 14}, {14, 16}, {0, 1},  {0, 2},  {1, 3},  {2, 4}};

struct keypoint {
    double x, y; /* of the network's input; in the end of the picture */
    float score; /* 0 = not found yet */
};

struct person {
    struct keypoint parts[PARTS];
    float score; /* mean of its parts */
};

struct grid {
    size_t rows, cols;
    const struct pen_tensor *heat, *offset, *forward, *backward;
};

/* 16 k + 1 nearest to `side`, within reason. */
static unsigned side_of(double side)
{
    double cells = floor((side - 1) / STRIDE + 0.5);
    cells = fmin(fmax(cells, 2), (SIDE_MAX - 1) / STRIDE);
    return (unsigned)cells * STRIDE + 1;
}

static const struct pen_tensor *displacement(const pen_result *result, const char *part)
{
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *t = pen_result_output(result, i);
        if (strstr(t->name, "displacement") && strstr(t->name, part)) {
            return t;
        }
    }
    fprintf(stderr, "the model has no output displacement_%s: is it another one?\n", part);
    return NULL;
}

static bool grid_read(const pen_result *result, unsigned height, unsigned width, struct grid *g)
{
    size_t rows = (height - 1) / STRIDE + 1, cols = (width - 1) / STRIDE + 1, cells = rows * cols;
    *g = (struct grid){rows,
                       cols,
                       output_of_size(result, cells * PARTS),
                       output_of_size(result, cells * 2 * PARTS),
                       displacement(result, "fwd"),
                       displacement(result, "bwd")};
    return g->heat && g->offset && g->forward && g->backward &&
           g->forward->bytes == cells * 2 * BONES * sizeof(float) && g->backward->bytes == g->forward->bytes;
}

/* The cell nearest to a place in the input. */
static size_t cell_of(const struct grid *g, double x, double y)
{
    double row = fmin(fmax(floor(y / STRIDE + 0.5), 0), (double)(g->rows - 1));
    double col = fmin(fmax(floor(x / STRIDE + 0.5), 0), (double)(g->cols - 1));
    return (size_t)row * g->cols + (size_t)col;
}

static float heat_at(const struct grid *g, size_t cell, unsigned part)
{
    return 1.0f / (1.0f + expf(-value_at(g->heat, cell * PARTS + part)));
}

/* The part as the cell sees it. */
static struct keypoint part_at(const struct grid *g, size_t cell, unsigned part)
{
    return (struct keypoint){(double)(cell % g->cols * STRIDE) +
                                 (double)value_at(g->offset, cell * 2 * PARTS + PARTS + part),
                             (double)(cell / g->cols * STRIDE) + (double)value_at(g->offset, cell * 2 * PARTS + part),
                             heat_at(g, cell, part)};
}

/* Along a bone to its other end; the cells there know better where the part is. */
static struct keypoint follow(const struct grid *g, const struct keypoint *from, const struct pen_tensor *by,
                              size_t bone, unsigned part)
{
    size_t cell = cell_of(g, from->x, from->y);
    struct keypoint k = {from->x + (double)value_at(by, cell * 2 * BONES + BONES + bone),
                         from->y + (double)value_at(by, cell * 2 * BONES + bone), 0};
    for (int i = 0; i < 2; i++) {
        k = part_at(g, cell_of(g, k.x, k.y), part);
    }
    return k;
}

/* Bones towards the nose first, then away from it: so all are reached wherever it begins. */
static struct person grow(const struct grid *g, unsigned part, size_t cell)
{
    struct person p = {.score = 0};
    p.parts[part] = part_at(g, cell, part);
    for (size_t i = BONES; i-- > 0;) {
        struct keypoint *near = &p.parts[bones[i][0]], *far = &p.parts[bones[i][1]];
        if (far->score > 0 && !(near->score > 0)) {
            *near = follow(g, far, g->backward, i, bones[i][0]);
        }
    }
    for (size_t i = 0; i < BONES; i++) {
        struct keypoint *near = &p.parts[bones[i][0]], *far = &p.parts[bones[i][1]];
        if (near->score > 0 && !(far->score > 0)) {
            *far = follow(g, near, g->forward, i, bones[i][1]);
        }
    }
    for (size_t i = 0; i < PARTS; i++) {
        p.score += p.parts[i].score / PARTS;
    }
    return p;
}

/* Somebody known has this part there. */
static bool taken(const struct person *people, size_t count, unsigned part, const struct keypoint *k)
{
    for (size_t i = 0; i < count; i++) {
        if (hypot(people[i].parts[part].x - k->x, people[i].parts[part].y - k->y) < APART) {
            return true;
        }
    }
    return false;
}

static size_t people_find(const struct grid *g, struct person people[PEOPLE])
{
    size_t count = 0;
    while (count < PEOPLE) {
        size_t best = 0;
        unsigned best_part = PARTS;
        float most = SURE;
        for (size_t i = 0; i < g->rows * g->cols * PARTS; i++) {
            unsigned part = (unsigned)(i % PARTS);
            float heat = heat_at(g, i / PARTS, part);
            struct keypoint k = heat > most ? part_at(g, i / PARTS, part) : (struct keypoint){0};
            if (heat > most && !taken(people, count, part, &k)) {
                best = i / PARTS;
                best_part = part;
                most = heat;
            }
        }
        if (best_part == PARTS) {
            break;
        }
        people[count++] = grow(g, best_part, best);
    }
    return count;
}

/* A ghost: the same person seen twice, or hardly anything of one. */
static bool doubtful(const struct person *people, size_t index)
{
    size_t shared = 0;
    for (unsigned part = 0; part < PARTS; part++) {
        shared += taken(people, index, part, &people[index].parts[part]) ? 1 : 0;
    }
    return people[index].score < SURE / 2 || shared > PARTS / 2;
}

static void draw(struct picture *p, const struct keypoint *k)
{
    const struct colour left = {64, 160, 255}, right = {255, 128, 32}, middle = {240, 240, 80};
    double unit = fmax(p->width, p->height) / 160.0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const struct keypoint *a = &k[lines[i][0]], *b = &k[lines[i][1]];
        if (a->score >= SURE && b->score >= SURE) {
            draw_line(p, a->x, a->y, b->x, b->y, unit, middle);
        }
    }
    for (size_t i = 0; i < PARTS; i++) {
        if (k[i].score >= SURE) {
            draw_disc(p, k[i].x, k[i].y, 1.2 * unit, i == 0 ? middle : i % 2 ? left : right);
        }
    }
}

/* Into the picture's coordinates; cells lie on the centres of pixels. */
static void person_place(struct person *p, const struct view *view)
{
    for (size_t i = 0; i < PARTS; i++) {
        view_point(view, p->parts[i].x + 0.5, p->parts[i].y + 0.5, &p->parts[i].x, &p->parts[i].y);
    }
}

static void person_show(const struct person *p, size_t number)
{
    printf("person %-8zu %.3f\n", number, (double)p->score);
    for (size_t i = 0; i < PARTS; i++) {
        printf("%-15s %.3f %7.1f %7.1f\n", names[i], (double)p->parts[i].score, p->parts[i].x, p->parts[i].y);
    }
}

static bool run(struct pool *pool, const char *model, struct picture *picture)
{
    struct person people[PEOPLE];
    struct grid grid;
    double shorter = fmin(picture->width, picture->height);
    unsigned height = side_of(SIDE * picture->height / shorter), width = side_of(SIDE * picture->width / shorter);
    pool_size(pool, model, &height, &width);
    struct view view = view_of_box(0, 0, picture->width, picture->height, width, height);
    uint8_t *pixels = malloc((size_t)height * width * 3);
    if (!pixels) {
        return false;
    }
    draw_sample(picture, &view, width, height, pixels);
    pen_result *result = pool_ask(pool, model, pixels, height, width, 2.0f / 255.0f, -1.0f);
    free(pixels);
    bool ok = result && grid_read(result, height, width, &grid);
    size_t count = ok ? people_find(&grid, people) : 0, number = 0;
    for (size_t i = 0; i < count; i++) {
        if (doubtful(people, i)) {
            continue;
        }
        struct person p = people[i];
        person_place(&p, &view);
        person_show(&p, number++);
        draw(picture, p.parts);
    }
    if (ok && number == 0) {
        printf("nobody\n");
    }
    pen_result_free(result);
    return ok;
}

int main(int argc, char **argv)
{
    struct picture picture;
    struct pool pool;
    if (argc < 3) {
        fprintf(stderr, "usage: pose PICTURE OUT.png [ENDPOINT [MODEL]]\n");
        return 2;
    }
    if (!draw_open(argv[1], &picture)) {
        return 2;
    }
    bool ok = pool_open(argc > 3 ? argv[3] : NULL, &pool) && run(&pool, argc > 4 ? argv[4] : "posenet", &picture) &&
              draw_save(argv[2], &picture);
    pool_close(&pool);
    picture_fini(&picture);
    return ok ? 0 : 1;
}
