/*
 * face.c - face PICTURE [ENDPOINT [MODEL]]: the faces of a picture: box, six keypoints and a mesh of 468 points each, in pixels of the picture.
 *
 * MODEL (default: faces) is the ensemble of deploy/answers/faces: BlazeFace finds faces, the worker cuts them out and turns them, FaceMesh makes the meshes. The
 * program sends the file as it is; all else is the models' config.json. `penstock submit faces PICTURE --draw OUT.png` draws the same. See README.md.
 */
#include <penstock/client.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"right eye", "left eye", "nose", "mouth", "right ear", "left ear"};
#define NAMES (sizeof names / sizeof *names)

/* Of 468: the tip of the nose, the chin, the outer corners of the eyes. */
static const struct {
    const char *name;
    size_t index;
} corners[] = {{"mesh nose tip", 1}, {"mesh chin", 152}, {"mesh right eye", 33}, {"mesh left eye", 263}};

static const struct pen_tensor *output_named(const pen_result *result, const char *name)
{
    static const struct pen_tensor none = {.name = ""};
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        if (strcmp(pen_result_output(result, i)->name, name) == 0) {
            return pen_result_output(result, i);
        }
    }
    fprintf(stderr, "the model has no output \"%s\": it must be an ensemble as deploy/answers/faces\n", name);
    return &none;
}

/* Number `index` of a float32 tensor; 0 beyond its end. Its bytes need not be aligned. */
static double value_at(const struct pen_tensor *t, size_t index)
{
    float value = 0;
    if (index < t->bytes / sizeof value) {
        memcpy(&value, (const char *)t->data + index * sizeof value, sizeof value);
    }
    return (double)value;
}

static void faces_show(const pen_result *result)
{
    const struct pen_tensor *boxes = output_named(result, "boxes"), *scores = output_named(result, "scores"),
                            *points = output_named(result, "points"), *mesh = output_named(result, "mesh");
    size_t faces = mesh->rank == 3 ? (size_t)mesh->dims[0] : 0;
    for (size_t f = 0; f < faces; f++) {
        printf("face %zu          %.3f %7.1f %7.1f %7.1f %7.1f\n", f, value_at(scores, f), value_at(boxes, 4 * f),
               value_at(boxes, 4 * f + 1), value_at(boxes, 4 * f + 2), value_at(boxes, 4 * f + 3));
        for (size_t i = 0; i < NAMES; i++) {
            size_t at = (f * NAMES + i) * 3;
            printf("%-15s %7.1f %7.1f\n", names[i], value_at(points, at), value_at(points, at + 1));
        }
        for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
            size_t at = (f * (size_t)mesh->dims[1] + corners[i].index) * 3;
            printf("%-15s %7.1f %7.1f\n", corners[i].name, value_at(mesh, at), value_at(mesh, at + 1));
        }
    }
    if (faces == 0) {
        printf("no face\n");
    }
}

int main(int argc, char **argv)
{
    struct pen_error error = {.status = PEN_OK};
    struct pen_client_options options;
    struct pen_tensor picture;
    pen_client *client = NULL;
    pen_result *result = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: face PICTURE [ENDPOINT [MODEL]]\n");
        return 2;
    }
    const char *model = argc > 3 ? argv[3] : "faces";
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argc > 2 ? argv[2] : options.endpoint;
    enum pen_status status = pen_client_connect(&options, &client, &error);
    if (status == PEN_OK && (status = pen_client_picture(client, model, argv[1], &picture, &error)) == PEN_OK) {
        status = pen_client_infer(client, model, &picture, 1, 0, &result, &error);
        pen_picture_free(&picture);
    }
    if (status == PEN_OK) {
        faces_show(result);
    } else {
        fprintf(stderr, "%s: %s\n", pen_status_name(status), error.text);
    }
    pen_result_free(result);
    pen_client_free(client);
    return status == PEN_OK ? 0 : 1;
}
