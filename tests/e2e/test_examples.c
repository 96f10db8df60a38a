/* The pose and the face example: real pictures through a real pool; points where a person sees them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "pool.h"

#define MODELS PENSTOCK_SHARED "/models/tfjs/"
#define IMAGES PENSTOCK_SHARED "/images/"

static char folder[FOLDER_PATH_BYTES];
static struct pool pool;

static void model_add(const char *name, const char *from, const char *files)
{
    char command[1024];
    snprintf(command, sizeof command, "mkdir -p %s/%s/1 && cd " MODELS "%s && cp %s %s/%s/1/", folder, name, from,
             files, folder, name);
    cr_assert(system(command) == 0, "%s", command);
}

#define CONFIGS PENSTOCK_SOURCE "/deploy/answers/"

/* path: below deploy/answers */
static void config_add(const char *name, const char *path)
{
    char command[1024];
    snprintf(command, sizeof command, "mkdir -p %s/%s && cp " CONFIGS "%s/config.json %s/%s/", folder, name, path,
             folder, name);
    cr_assert(system(command) == 0, "%s", command);
}

static void examples_open(void)
{
    if (access(MODELS, R_OK) != 0)
        cr_skip_test("no " MODELS);
    folder_new(folder);
    pool_start(&pool, NULL);
}

static void examples_close(void)
{
    if (!pool.broker)
        return;
    pool_stop(&pool);
    folder_free(folder);
}

TestSuite(examples, .init = examples_open, .fini = examples_close, .timeout = 120);

/* Runs it; gives what it printed. */
static char *example(const char *program, const char *image)
{
    char binary[512], *out, *err;
    snprintf(binary, sizeof binary, PENSTOCK_BIN "/%s", program);
    int status = process_run((const char *const[]){binary, image, pool.clients, NULL}, 60000, &out, &err);
    cr_assert(status == 0, "%s %s ended with %d: %s", program, image, status, err);
    free(err);
    return out;
}

struct point {
    const char *name;
    double x, y;
};

/* The last two numbers of the line that begins with the name. */
static struct point point_of(const char *text, const char *name)
{
    struct point p = {name, 0, 0};
    const char *line = strstr(text, name);
    cr_assert_not_null(line, "no %s in:\n%s", name, text);
    const char *end = strchr(line, '\n'), *at = end;
    cr_assert_not_null(end);
    for (int numbers = 0; numbers < 2; numbers++) {
        while (at[-1] == ' ')
            at--;
        while (at[-1] != ' ')
            at--;
    }
    cr_assert(sscanf(at, "%lf %lf", &p.x, &p.y) == 2);
    return p;
}

static void points_lie(const char *text, const struct point *points, size_t count, double within)
{
    for (size_t i = 0; i < count; i++) {
        struct point p = point_of(text, points[i].name);
        cr_expect(hypot(p.x - points[i].x, p.y - points[i].y) <= within, "%s is at %.1f %.1f, not near %.0f %.0f",
                  p.name, p.x, p.y, points[i].x, points[i].y);
    }
}

/* A man and a woman walk towards us: their left is our right. Places were read off the picture. */
Test(examples, pose_finds_two_people_with_left_and_right)
{
    static const struct point man[] = {
        {"nose", 268, 138},       {"left shoulder", 286, 166}, {"right shoulder", 230, 170}, {"right elbow", 216, 228},
        {"left wrist", 302, 264}, {"right wrist", 210, 274},   {"right knee", 256, 330},     {"right ankle", 258, 388}};
    static const struct point woman[] = {
        {"nose", 347, 146},       {"left shoulder", 388, 178}, {"right shoulder", 336, 180}, {"left elbow", 404, 214},
        {"left wrist", 417, 250}, {"left knee", 374, 314},     {"left ankle", 378, 376}};
    model_add("posenet", "posenet_mobilenet075_q16", "model-stride16.json *.bin");
    config_add("posenet", "posenet");
    pool_add_worker(&pool, "xnnpack", folder, NULL);
    char *text = example("pose", IMAGES "posenet_test_image.bmp");
    char *first = strstr(text, "person 0"), *second = strstr(text, "person 1");
    cr_assert(first && second && !strstr(text, "person 2"), "two people:\n%s", text);
    *second++ = '\0';
    bool turned = point_of(first, "nose").x > point_of(second, "nose").x;
    points_lie(turned ? second : first, man, sizeof man / sizeof *man, 12);
    points_lie(turned ? first : second, woman, sizeof woman / sizeof *woman, 12);
    free(text);
    text = example("pose", IMAGES "coffee.png");
    cr_expect_str_eq(text, "nobody\n");
    free(text);
}

Test(examples, face_finds_box_keypoints_and_mesh)
{
    static const struct point points[] = {
        {"right eye", 221, 187},      {"left eye", 310, 188},     {"nose", 266, 228},          {"mouth", 266, 278},
        {"right ear", 168, 215},      {"left ear", 356, 215},     {"mesh nose tip", 268, 242}, {"mesh chin", 270, 333},
        {"mesh right eye", 200, 193}, {"mesh left eye", 326, 188}};
    char *text, *err;
    model_add("face_boxes", "blazeface", "model.json group1-shard1of1");
    model_add("face_mesh", "facemesh", "model.json group1-shard1of1");
    config_add("face_boxes", "faces/face_boxes");
    config_add("face_mesh", "faces/face_mesh");
    config_add("faces", "faces/faces");
    pool_add_worker(&pool, "xnnpack", folder, NULL);
    const char *const program[] = {PENSTOCK_BIN "/face", IMAGES "grace_hopper.bmp", pool.clients, NULL};
    cr_assert(process_run(program, 60000, &text, &err) == 0, "%s", err);
    cr_expect(strstr(text, "face 0") && !strstr(text, "face 1"), "one face:\n%s", text);
    points_lie(text, points, sizeof points / sizeof *points, 10);
    free(text);
    free(err);
    const char *const nobody[] = {PENSTOCK_BIN "/face", IMAGES "coffee.png", pool.clients, NULL};
    cr_assert(process_run(nobody, 60000, &text, &err) == 0, "%s", err);
    cr_expect_str_eq(text, "no face\n");
    free(text);
    free(err);
}

Test(examples, failures_are_told)
{
    char *out, *err;
    const char *const unreadable[] = {PENSTOCK_BIN "/face", MODELS "blazeface/model.json", pool.clients, "blazeface",
                                      NULL};
    model_add("blazeface", "blazeface", "model.json group1-shard1of1");
    model_add("face_boxes", "blazeface", "model.json group1-shard1of1");
    config_add("blazeface", "blazeface");
    config_add("face_boxes", "faces/face_boxes");
    pool_add_worker(&pool, "xnnpack", folder, NULL);
    cr_expect(process_run(unreadable, 20000, &out, &err) == 1);
    cr_expect(strstr(err, "is no picture: it is neither PNG, JPEG"), "%s", err);
    free(out);
    free(err);
    const char *const unlike[] = {PENSTOCK_BIN "/pose", IMAGES "coffee.png", pool.clients, "face_boxes", NULL};
    cr_expect(process_run(unlike, 20000, &out, &err) == 1);
    cr_expect(strstr(err, "no output \"answer\""), "%s", err);
    free(out);
    free(err);
    const char *const missing[] = {PENSTOCK_BIN "/face", IMAGES "coffee.png", pool.clients, NULL};
    cr_expect(process_run(missing, 20000, &out, &err) == 1);
    cr_expect(strstr(err, "\"faces\""), "%s", err);
    free(out);
    free(err);
}
