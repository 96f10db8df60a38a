/* Models that answer pictures by their config.json alone (deploy/answers), through a real pool: faces, meshes, people, parts, labels and things where a person sees them. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "pool.h"

#define MODELS  PENSTOCK_SHARED "/models/"
#define IMAGES  PENSTOCK_SHARED "/images/"
#define CONFIGS PENSTOCK_SOURCE "/deploy/answers/"

static char folder[FOLDER_PATH_BYTES];
static struct pool pool;

/* config: folder below deploy/answers; from: below the models; files: of it. */
static void model_add(const char *name, const char *config, const char *from, const char *files)
{
    char command[2048];
    snprintf(command, sizeof command, "mkdir -p %s/%s/1 && cp " CONFIGS "%s/config.json %s/%s/", folder, name, config,
             folder, name);
    cr_assert(system(command) == 0, "%s", command);
    if (!from) {
        snprintf(command, sizeof command, "rmdir %s/%s/1", folder, name);
    } else {
        snprintf(command, sizeof command, "cd " MODELS "%s && cp %s %s/%s/1/", from, files, folder, name);
    }
    cr_assert(system(command) == 0, "%s", command);
}

static void answers_open(void)
{
    if (access(MODELS, R_OK) != 0)
        cr_skip_test("no " MODELS);
    folder_new(folder);
    pool_start(&pool, NULL);
}

static void answers_close(void)
{
    if (!pool.broker)
        return;
    pool_stop(&pool);
    folder_free(folder);
}

TestSuite(answers, .init = answers_open, .fini = answers_close, .timeout = 120);

/* The answer as `penstock submit --json` tells it; the drawing is at folder/out.png. */
static cJSON *ask(const char *model, const char *image)
{
    char out_path[FOLDER_PATH_BYTES + 16], *out, *err;
    snprintf(out_path, sizeof out_path, "%s/out.png", folder);
    int status =
        pool_cli(&pool, "submit", (const char *const[]){model, image, "--json", "--draw", out_path, NULL}, &out, &err);
    cr_assert(status == 0, "%s %s ended with %d: %s", model, image, status, err);
    cJSON *json = cJSON_Parse(out), *jobs = cJSON_GetObjectItem(json, "jobs");
    cJSON *answer = cJSON_DetachItemFromObject(cJSON_GetArrayItem(jobs, 0), "answer");
    cr_assert(answer, "no answer in %s", out);
    cJSON_Delete(json);
    free(out);
    free(err);
    return answer;
}

static const cJSON *object_at(const cJSON *answer, int index)
{
    const cJSON *object = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "objects"), index);
    cr_assert(object, "no object %d", index);
    return object;
}

static int objects_of(const cJSON *answer)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(answer, "objects"));
}

static double item(const cJSON *list, int index)
{
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, index));
}

static void lies_at(const cJSON *points, int index, double x, double y, double within)
{
    const cJSON *point = cJSON_GetArrayItem(points, index);
    cr_expect(hypot(item(point, 0) - x, item(point, 1) - y) <= within, "point %d is at %.1f %.1f, not near %.0f %.0f",
              index, item(point, 0), item(point, 1), x, y);
}

static void box_is(const cJSON *object, double left, double top, double right, double bottom)
{
    const cJSON *box = cJSON_GetObjectItem(object, "box");
    double width = fmin(right, item(box, 2)) - fmax(left, item(box, 0)),
           height = fmin(bottom, item(box, 3)) - fmax(top, item(box, 1));
    double shared = fmax(width, 0) * fmax(height, 0);
    double joint =
        (right - left) * (bottom - top) + (item(box, 2) - item(box, 0)) * (item(box, 3) - item(box, 1)) - shared;
    cr_expect(shared / joint > 0.8, "the box is %.0f %.0f %.0f %.0f, not near %.0f %.0f %.0f %.0f", item(box, 0),
              item(box, 1), item(box, 2), item(box, 3), left, top, right, bottom);
}

/* The drawing's pixel; it must be of the picture's size. */
static void drawn(unsigned width, unsigned height, unsigned x, unsigned y, uint8_t rgb[3])
{
    char path[FOLDER_PATH_BYTES + 16];
    png_image png = {.version = PNG_IMAGE_VERSION};
    snprintf(path, sizeof path, "%s/out.png", folder);
    cr_assert(png_image_begin_read_from_file(&png, path), "%s", png.message);
    png.format = PNG_FORMAT_RGB;
    cr_assert(png.width == width && png.height == height, "%u x %u", png.width, png.height);
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(png));
    cr_assert(pixels && png_image_finish_read(&png, NULL, pixels, 0, NULL), "%s", png.message);
    memcpy(rgb, pixels + ((size_t)y * width + x) * 3, 3);
    free(pixels);
}

/* Eyes, nose, mouth, ears, in the names' order; the same places as client-lib/examples/face finds. */
static void face_check(const cJSON *face)
{
    static const double places[6][2] = {{221, 187}, {310, 188}, {266, 228}, {266, 278}, {168, 215}, {356, 215}};
    box_is(face, 163, 138, 364, 339);
    for (int i = 0; i < 6; i++)
        lies_at(cJSON_GetObjectItem(face, "points"), i, places[i][0], places[i][1], 10);
}

Test(answers, faces_and_their_meshes)
{
    uint8_t rgb[3];
    model_add("blazeface", "blazeface", "tfjs/blazeface", "model.json group1-shard1of1");
    model_add("facemesh", "facemesh", "tfjs/facemesh", "model.json group1-shard1of1");
    model_add("face_boxes", "faces/face_boxes", "tfjs/blazeface", "model.json group1-shard1of1");
    model_add("face_mesh", "faces/face_mesh", "tfjs/facemesh", "model.json group1-shard1of1");
    model_add("faces", "faces/faces", NULL, NULL);
    pool_add_worker(&pool, "xnnpack", folder, NULL);
    cJSON *answer = ask("blazeface", IMAGES "grace_hopper.bmp");
    cr_expect(objects_of(answer) == 1);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object_at(answer, 0), "label")), "face");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "names"), 2)), "nose");
    face_check(object_at(answer, 0));
    const cJSON *box = cJSON_GetObjectItem(object_at(answer, 0), "box");
    drawn(512, 600, (unsigned)item(box, 0), (unsigned)(item(box, 1) + item(box, 3)) / 2, rgb);
    cr_expect(rgb[0] == 80 && rgb[1] == 220 && rgb[2] == 120, "the frame: %d %d %d", rgb[0], rgb[1], rgb[2]);
    cJSON_Delete(answer);

    answer = ask("faces", IMAGES "grace_hopper.bmp"); /* cut out and turned on the worker */
    cr_expect(objects_of(answer) == 1);
    face_check(object_at(answer, 0));
    const cJSON *mesh = cJSON_GetObjectItem(object_at(answer, 0), "mesh");
    cr_assert(cJSON_GetArraySize(mesh) == 468);
    lies_at(mesh, 1, 268, 242, 10);   /* tip of the nose */
    lies_at(mesh, 152, 270, 333, 10); /* chin */
    lies_at(mesh, 33, 200, 193, 10);  /* right eye */
    lies_at(mesh, 263, 326, 188, 10);
    cJSON_Delete(answer);
    answer = ask("faces", IMAGES "astronaut.png");
    cr_expect(objects_of(answer) == 1);
    box_is(object_at(answer, 0), 175, 78, 275, 177);
    cJSON_Delete(answer);
    answer = ask("faces", IMAGES "coffee.png"); /* nobody: the second step has nothing to do */
    cr_expect(objects_of(answer) == 0);
    cJSON_Delete(answer);
    answer = ask("facemesh", IMAGES "astronaut.png");
    cr_expect(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "points")) % 468 == 0);
    cJSON_Delete(answer);
}

static void people_check(const cJSON *answer)
{
    static const double man[][3] = {{0, 268, 138}, {5, 286, 166}, {6, 230, 170}, {9, 302, 264}, {16, 258, 388}};
    static const double woman[][3] = {{0, 347, 146}, {5, 388, 178}, {6, 336, 180}, {9, 417, 250}, {15, 378, 376}};
    cr_assert(objects_of(answer) == 2, "%d people", objects_of(answer));
    const cJSON *first = cJSON_GetObjectItem(object_at(answer, 0), "points"),
                *second = cJSON_GetObjectItem(object_at(answer, 1), "points");
    bool turned = item(cJSON_GetArrayItem(first, 0), 0) > item(cJSON_GetArrayItem(second, 0), 0);
    for (int i = 0; i < 5; i++) {
        lies_at(turned ? second : first, (int)man[i][0], man[i][1], man[i][2], 14);
        lies_at(turned ? first : second, (int)woman[i][0], woman[i][1], woman[i][2], 14);
    }
}

Test(answers, people_parts_labels_and_things)
{
    uint8_t rgb[3];
    model_add("posenet", "posenet", "tfjs/posenet_mobilenet075_q16", "model-stride16.json *.bin");
    model_add("bodypix", "bodypix", "tfjs/bodypix_mobilenet050", "model-stride16.json *.bin");
    model_add("mobilenet_v2", "mobilenet_v2", "tfjs/mobilenet_v2_100_224_nsfw_q8", "model.json group1-shard1of1");
    model_add("yolox", "yolox", "onnx/yolox_nano", "model.onnx ../../../images/labels/coco_80.names");
    char command[1024];
    snprintf(command, sizeof command, "mv %s/yolox/1/coco_80.names %s/yolox/", folder, folder);
    cr_assert(system(command) == 0);
    pool_add_worker(&pool, "xnnpack", folder, NULL);

    cJSON *answer = ask("posenet", IMAGES "posenet_test_image.bmp");
    people_check(answer);
    cr_expect(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "skeleton")) == 12);
    cJSON_Delete(answer);
    answer = ask("bodypix", IMAGES "posenet_test_image.bmp");
    const cJSON *mask = cJSON_GetObjectItem(answer, "mask");
    cr_expect(cJSON_GetNumberValue(cJSON_GetObjectItem(mask, "width")) == 640);
    drawn(640, 480, 258, 220, rgb); /* the man's blue shirt, tinted; the snow beside him is not */
    cr_expect(rgb[2] > rgb[0] + 40, "%d %d %d", rgb[0], rgb[1], rgb[2]);
    drawn(640, 480, 100, 400, rgb);
    cr_expect(rgb[0] > 200 && rgb[1] > 200 && rgb[2] > 200, "%d %d %d", rgb[0], rgb[1], rgb[2]);
    cJSON_Delete(answer);
    answer = ask("mobilenet_v2", IMAGES "chelsea.png");
    const cJSON *best = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "classes"), 0);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(best, "label")), "Neutral");
    cr_expect(cJSON_GetNumberValue(cJSON_GetObjectItem(best, "score")) > 0.9);
    cJSON_Delete(answer);
    answer = ask("yolox", IMAGES "parrot.jpg");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object_at(answer, 0), "label")), "bird");
    box_is(object_at(answer, 0), 117, 96, 455, 870);
    cJSON_Delete(answer);
    answer = ask("yolox", IMAGES "cat.bmp");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(object_at(answer, 0), "label")), "cat");
    box_is(object_at(answer, 0), 29, 51, 387, 338);
    cJSON_Delete(answer);
}

/* A config that does not suit its model: the sentence says why, and the other models serve. */
Test(answers, a_wrong_step_is_told)
{
    char command[1024], *out, *err;
    model_add("yolox", "yolox", "onnx/yolox_nano", "model.onnx");
    snprintf(command, sizeof command,
             "printf '{\"answer\":{\"steps\":[{\"boxes\":{\"form\":\"yolov9\",\"boxes\":\"output\"}}]}}' > "
             "%s/yolox/config.json",
             folder);
    cr_assert(system(command) == 0);
    model_add("mobilenet_v2", "mobilenet_v2", "tfjs/mobilenet_v2_100_224_nsfw_q8", "model.json group1-shard1of1");
    pool_add_worker(&pool, "xnnpack", folder, NULL);
    int status = pool_cli(&pool, "submit", (const char *const[]){"yolox", IMAGES "cat.bmp", NULL}, &out, &err);
    cr_expect(status != 0);
    cr_expect(strstr(err, "answer.steps[0] (boxes): form is 'yolov9'; it must be one of plain|ssd"), "%s", err);
    free(out);
    free(err);
}
