/* one_image.c - a first program: one_image FILE [ENDPOINT] asks the pool's digits model which digit the picture shows. */
#include <stdio.h>

#include <penstock/client.h>

static int fail(const struct pen_error *error)
{
    fprintf(stderr, "%s: %s\n", pen_status_name(error->status), error->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    struct pen_tensor image;
    struct pen_class best[3]; /* the best first */
    pen_client *client;
    pen_result *result;
    if (argc < 2) {
        fprintf(stderr, "usage: one_image FILE [ENDPOINT]\n");
        return 2;
    }
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argc > 2 ? argv[2] : options.endpoint;
    if (pen_client_connect(&options, &client, &error) != PEN_OK ||
        pen_client_picture(client, "digits", argv[1], &image, &error) != PEN_OK ||
        pen_client_infer(client, "digits", &image, 1, 3, &result, &error) != PEN_OK) {
        return fail(&error);
    }
    size_t count = pen_result_top(result, 0, 3, best); /* of the first row: there is one picture */
    for (size_t i = 0; i < count; i++) {
        printf("%s: %s (%.4f)\n", argv[1], best[i].name, (double)best[i].score);
    }
    pen_result_free(result);
    pen_picture_free(&image);
    pen_client_free(client);
    return 0;
}
