/*
 * face.c - face PICTURE OUT.png [ENDPOINT [DETECTOR [MESH]]]: the faces of a picture, their six keypoints and their mesh, as numbers and drawn on it.
 *
 * DETECTOR (default: blazeface) is BlazeFace of TensorFlow.js: for each of 896 anchors a logit, a box (centre, size) and six points, in pixels of its 128 x 128
 * input, measured from the anchor. MESH (default: facemesh) is FaceMesh: 468 points in pixels of a 192 x 192 cut-out of one face, turned so that its eyes are
 * level. Where the pool has no MESH, boxes and keypoints are all there is. See README.md.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

#define DETECTOR_SIDE 128u
#define ANCHORS       896u
#define ANCHOR_VALUES 17u
#define POINTS        6u
#define MESH_SIDE     192u
#define MESH_POINTS   468u
#define FACES_MAX     10u
#define SURE          0.75f
#define OVERLAP       0.3 /* of two boxes; more is the same face */
#define MARGIN        1.5 /* of the mesh's cut-out around the box */

static const char *const names[POINTS] = {"right eye", "left eye", "nose", "mouth", "right ear", "left ear"};

struct face {
    float score;
    double left, top, right, bottom; /* in the picture */
    double x[POINTS], y[POINTS];
    double mesh_x[MESH_POINTS], mesh_y[MESH_POINTS];
    bool has_mesh;
};

/* Anchors lie in the middle of cells: two on each of 16 x 16, then six on each of 8 x 8. */
static void anchor_of(unsigned index, double *ret_x, double *ret_y)
{
    bool fine = index < 512;
    unsigned cell = fine ? index / 2 : (index - 512) / 6, side = fine ? 16 : 8, step = DETECTOR_SIDE / side;
    *ret_x = (cell % side + 0.5) * step;
    *ret_y = (cell / side + 0.5) * step;
}

static struct face face_at(const struct pen_tensor *t, unsigned index, float score, const struct view *view)
{
    struct face f = {.score = score};
    double ax, ay, v[ANCHOR_VALUES];
    anchor_of(index, &ax, &ay);
    for (unsigned i = 0; i < ANCHOR_VALUES; i++) {
        v[i] = (double)value_at(t, index * ANCHOR_VALUES + i);
    }
    view_point(view, ax + v[1] - v[3] / 2, ay + v[2] - v[4] / 2, &f.left, &f.top);
    view_point(view, ax + v[1] + v[3] / 2, ay + v[2] + v[4] / 2, &f.right, &f.bottom);
    for (unsigned i = 0; i < POINTS; i++) {
        view_point(view, ax + v[5 + 2 * i], ay + v[6 + 2 * i], &f.x[i], &f.y[i]);
    }
    return f;
}

/* Shared area over joint area. */
static double overlap(const struct face *a, const struct face *b)
{
    double width = fmin(a->right, b->right) - fmax(a->left, b->left);
    double height = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
    double shared = width > 0 && height > 0 ? width * height : 0;
    double sum = (a->right - a->left) * (a->bottom - a->top) + (b->right - b->left) * (b->bottom - b->top);
    return sum > shared ? shared / (sum - shared) : 1;
}

/* The best that is left, again and again, unless it is a face that is known. */
static size_t faces_find(const struct pen_tensor *t, const struct view *view, struct face faces[FACES_MAX])
{
    bool used[ANCHORS] = {false};
    size_t count = 0;
    while (count < FACES_MAX) {
        unsigned best = ANCHORS;
        for (unsigned i = 0; i < ANCHORS; i++) {
            if (!used[i] && (best == ANCHORS || value_at(t, i * ANCHOR_VALUES) > value_at(t, best * ANCHOR_VALUES))) {
                best = i;
            }
        }
        float score = best == ANCHORS ? 0 : 1.0f / (1.0f + expf(-value_at(t, best * ANCHOR_VALUES)));
        if (score < SURE) {
            break;
        }
        used[best] = true;
        struct face f = face_at(t, best, score, view);
        bool known = false;
        for (size_t i = 0; i < count; i++) {
            known |= overlap(&faces[i], &f) > OVERLAP;
        }
        if (!known) {
            faces[count++] = f;
        }
    }
    return count;
}

/* A square around the face, turned so that its eyes are level. */
static bool mesh_find(struct pool *pool, const char *model, const struct picture *picture, struct face *f)
{
    double angle = atan2(f->y[1] - f->y[0], f->x[1] - f->x[0]);
    double side = MARGIN * fmax(f->right - f->left, f->bottom - f->top);
    struct view view = view_of_square((f->left + f->right) / 2, (f->top + f->bottom) / 2, side, angle, MESH_SIDE);
    uint8_t *pixels = malloc((size_t)MESH_SIDE * MESH_SIDE * 3);
    pen_result *result = NULL;
    if (pixels) {
        draw_sample(picture, &view, MESH_SIDE, MESH_SIDE, pixels);
        result = pool_ask(pool, model, pixels, MESH_SIDE, MESH_SIDE, 1.0f / 255.0f, 0.0f);
    }
    const struct pen_tensor *t = result ? output_of_size(result, (size_t)MESH_POINTS * 3) : NULL;
    for (size_t i = 0; t && i < MESH_POINTS; i++) {
        view_point(&view, (double)value_at(t, 3 * i), (double)value_at(t, 3 * i + 1), &f->mesh_x[i], &f->mesh_y[i]);
    }
    f->has_mesh = t != NULL;
    pen_result_free(result);
    free(pixels);
    return f->has_mesh;
}

static void show(const struct face *f, size_t index)
{
    printf("face %zu          %.3f %7.1f %7.1f %7.1f %7.1f\n", index, (double)f->score, f->left, f->top, f->right,
           f->bottom);
    for (size_t i = 0; i < POINTS; i++) {
        printf("%-15s %7.1f %7.1f\n", names[i], f->x[i], f->y[i]);
    }
    if (f->has_mesh) { /* of 468 the tip of the nose, the chin, the outer corners of the eyes */
        printf("mesh nose tip   %7.1f %7.1f\nmesh chin       %7.1f %7.1f\n", f->mesh_x[1], f->mesh_y[1], f->mesh_x[152],
               f->mesh_y[152]);
        printf("mesh right eye  %7.1f %7.1f\nmesh left eye   %7.1f %7.1f\n", f->mesh_x[33], f->mesh_y[33],
               f->mesh_x[263], f->mesh_y[263]);
    }
}

static void draw(struct picture *p, const struct face *f)
{
    const struct colour frame = {80, 220, 120}, left = {64, 160, 255}, right = {255, 128, 32}, mesh = {240, 240, 80};
    double unit = fmax(f->right - f->left, f->bottom - f->top) / 80.0;
    unit = unit < 1 ? 1 : unit;
    for (size_t i = 0; f->has_mesh && i < MESH_POINTS; i++) {
        draw_disc(p, f->mesh_x[i], f->mesh_y[i], 0.5 * unit, mesh);
    }
    const double x[5] = {f->left, f->right, f->right, f->left, f->left};
    const double y[5] = {f->top, f->top, f->bottom, f->bottom, f->top};
    for (int i = 0; i < 4; i++) {
        draw_line(p, x[i], y[i], x[i + 1], y[i + 1], 1.2 * unit, frame);
    }
    for (size_t i = 0; i < POINTS; i++) {
        draw_disc(p, f->x[i], f->y[i], 1.5 * unit, i == 2 || i == 3 ? frame : i % 2 ? left : right);
    }
}

int main(int argc, char **argv)
{
    static struct face faces[FACES_MAX];
    struct picture picture;
    struct pool pool;
    size_t count = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: face PICTURE OUT.png [ENDPOINT [DETECTOR [MESH]]]\n");
        return 2;
    }
    const char *detector = argc > 4 ? argv[4] : "blazeface", *mesh = argc > 5 ? argv[5] : "facemesh";
    if (!draw_open(argv[1], &picture)) {
        return 2;
    }
    /* The detector was trained on squares: the picture's longer side fills its input, the rest is black. */
    double side = fmax(picture.width, picture.height);
    struct view view = view_of_square(picture.width / 2.0, picture.height / 2.0, side, 0, DETECTOR_SIDE);
    uint8_t pixels[DETECTOR_SIDE * DETECTOR_SIDE * 3];
    draw_sample(&picture, &view, DETECTOR_SIDE, DETECTOR_SIDE, pixels);
    bool ok = pool_open(argc > 3 ? argv[3] : NULL, &pool);
    pen_result *result =
        ok ? pool_ask(&pool, detector, pixels, DETECTOR_SIDE, DETECTOR_SIDE, 2.0f / 255.0f, -1.0f) : NULL;
    const struct pen_tensor *t = result ? output_of_size(result, (size_t)ANCHORS * ANCHOR_VALUES) : NULL;
    ok = t != NULL;
    if (ok) {
        count = faces_find(t, &view, faces);
    }
    for (size_t i = 0; ok && i < count; i++) {
        ok = !pool_has(&pool, mesh) || mesh_find(&pool, mesh, &picture, &faces[i]);
        show(&faces[i], i);
    }
    for (size_t i = 0; ok && i < count; i++) {
        draw(&picture, &faces[i]);
    }
    ok = ok && draw_save(argv[2], &picture);
    if (ok && count == 0) {
        printf("no face\n");
    }
    pen_result_free(result);
    pool_close(&pool);
    picture_fini(&picture);
    return ok ? 0 : 1;
}
