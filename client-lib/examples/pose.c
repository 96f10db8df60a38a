/*
 * pose.c - pose PICTURE [ENDPOINT [MODEL]]: the people in a picture, 17 keypoints each, in pixels of the picture.
 *
 * MODEL (default: posenet) is a PoseNet with the config.json of deploy/answers/posenet: the worker decodes the picture, follows the maps from part to part, and answers
 * in JSON (deploy/ANSWERS.md). `penstock submit posenet PICTURE --draw OUT.png` draws the same. See README.md.
 */
#include <cjson/cJSON.h>
#include <penstock/client.h>
#include <stdio.h>
#include <string.h>

/* The first text of the output "answer", as JSON; NULL (told): there is none. cJSON_Delete it. */
static cJSON *answer_of(const pen_result *result)
{
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *t = pen_result_output(result, i);
        if (strcmp(t->name, "answer") == 0 && t->dtype == PEN_DTYPE_STRING && t->bytes > 4) {
            return cJSON_ParseWithLength((const char *)t->data + 4, t->bytes - 4); /* behind its length */
        }
    }
    fprintf(stderr, "the model gives no output \"answer\": it needs the config.json of deploy/answers/posenet\n");
    return NULL;
}

static double item(const cJSON *list, int index)
{
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, index));
}

static void person_show(const cJSON *person, const cJSON *names, size_t number)
{
    const cJSON *points = cJSON_GetObjectItem(person, "points");
    printf("person %-8zu %.3f\n", number, cJSON_GetNumberValue(cJSON_GetObjectItem(person, "score")));
    for (int i = 0; i < cJSON_GetArraySize(points); i++) {
        const cJSON *point = cJSON_GetArrayItem(points, i);
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(names, i));
        printf("%-15s %.3f %7.1f %7.1f\n", name ? name : "", item(point, 2), item(point, 0), item(point, 1));
    }
}

static bool people_show(const pen_result *result)
{
    cJSON *answer = answer_of(result);
    const cJSON *names = cJSON_GetObjectItem(answer, "names"), *person = NULL;
    size_t number = 0;
    cJSON_ArrayForEach(person, cJSON_GetObjectItem(answer, "objects"))
    {
        person_show(person, names, number++);
    }
    if (answer && number == 0) {
        printf("nobody\n");
    }
    cJSON_Delete(answer);
    return answer != NULL;
}

int main(int argc, char **argv)
{
    struct pen_error error = {.status = PEN_OK};
    struct pen_client_options options;
    struct pen_tensor picture;
    pen_client *client = NULL;
    pen_result *result = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: pose PICTURE [ENDPOINT [MODEL]]\n");
        return 2;
    }
    const char *model = argc > 3 ? argv[3] : "posenet";
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argc > 2 ? argv[2] : options.endpoint;
    enum pen_status status = pen_client_connect(&options, &client, &error);
    if (status == PEN_OK && (status = pen_client_picture(client, model, argv[1], &picture, &error)) == PEN_OK) {
        status = pen_client_infer(client, model, &picture, 1, 0, &result, &error);
        pen_picture_free(&picture);
    }
    if (status != PEN_OK) {
        fprintf(stderr, "%s: %s\n", pen_status_name(status), error.text);
    }
    bool shown = status == PEN_OK && people_show(result);
    pen_result_free(result);
    pen_client_free(client);
    return shown ? 0 : 1;
}
