/*
 * digit.c - a first program with libpenstock-engine: digit MODEL [PICTURE] says which digit a picture of 8 x 8 points shows, by the digits model of the tutorial.
 *
 * PICTURE is a text of eight lines, a point each column: " .:-=+*#" from black to white. Without it the program takes a seven of its own.
 */
#include <stdio.h>
#include <string.h>

#include <penstock/backends.h>
#include <penstock/tensors.h>

#define SIDE 8

struct job {
    struct pen_model *model;
    float points[SIDE * SIDE];
};

static const char seven[] = "  -##=  \n  =###  \n    =#- \n -=###= \n =####. \n  ###-  \n  =#*   \n  .#-   \n";

static void points_read(const char *text, float points[SIDE * SIDE])
{
    static const char shades[] = " .:-=+*#";
    memset(points, 0, SIDE * SIDE * sizeof *points);
    for (size_t row = 0; row < SIDE && *text != '\0'; row++) {
        const size_t length = strcspn(text, "\n");
        for (size_t column = 0; column < length && column < SIDE; column++) {
            const char *shade = strchr(shades, text[column]);
            points[row * SIDE + column] = shade != NULL ? (float)(shade - shades) / 7.0f : 1.0f;
        }
        text += length + (text[length] == '\n');
    }
}

/* All tensors that are made in here are released when it returns: pen_tidy sees to that, also when something fails. */
static enum pen_status classify(void *context, struct pen_tensor_handle **ret_results, struct pen_error *error)
{
    const struct job *job = context;
    const struct pen_tensor picture = {.dtype = PEN_DTYPE_F32,
                                       .rank = 4,
                                       .dims = {1, 1, SIDE, SIDE},
                                       .data = job->points,
                                       .bytes = sizeof job->points};
    struct pen_tensor_handle *image = NULL, *answer = NULL;
    float scores[10];
    (void)ret_results; /* none leaves this function */
    enum pen_status status = pen_tensor_wrap(&picture, NULL, NULL, &image, error);
    if (status == PEN_OK) {
        status = pen_model_run(job->model, &image, 1, NULL, &answer, 1, error);
    }
    if (status == PEN_OK) {
        status = pen_tensor_read(answer, scores, sizeof scores, error);
    }
    if (status == PEN_OK) {
        int best = 0;
        for (int i = 1; i < 10; i++) {
            best = scores[i] > scores[best] ? i : best;
        }
        printf("%d (%.3f) on %s\n", best, scores[best], pen_backend_get());
    }
    return status;
}

int main(int argc, char **argv)
{
    char text[1024] = "";
    struct job job = {.model = NULL};
    struct pen_error error = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: digit MODEL [PICTURE]\n");
        return 2;
    }
    FILE *file = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (argc > 2 && file == NULL) {
        perror(argv[2]);
        return 1;
    }
    if (file != NULL) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    points_read(file != NULL ? text : seven, job.points);
    enum pen_status status = pen_model_open(argv[1], &job.model, &error);
    if (status == PEN_OK) {
        status = pen_tidy(classify, &job, NULL, 0, &error);
    }
    pen_model_close(job.model);
    pen_shutdown(NULL);
    if (status != PEN_OK) {
        fprintf(stderr, "%s\n", error.text);
    }
    return status != PEN_OK;
}
