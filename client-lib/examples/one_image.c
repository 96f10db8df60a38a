/* one_image.c - a first program: one_image FILE.png [ENDPOINT] asks the pool's digits model which digit the picture shows. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/client.h>

int main(int argc, char **argv)
{
    uint8_t pixels[8 * 8]; /* [1, height, width, 1] for the model; larger pictures are averaged block by block */
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (argc < 2 || !png_image_begin_read_from_file(&png, argv[1]) || png.width % 8 || png.height % 8) {
        fprintf(stderr, "usage: one_image FILE.png [ENDPOINT]; width and height must be multiples of 8\n");
        return 2;
    }
    png.format = PNG_FORMAT_GRAY;
    uint8_t *whole = malloc(PNG_IMAGE_SIZE(png));
    if (!whole || !png_image_finish_read(&png, NULL, whole, 0, NULL)) {
        fprintf(stderr, "%s: cannot be read: %s\n", argv[1], png.message);
        return 2;
    }
    unsigned block_width = png.width / 8, block_height = png.height / 8;
    for (unsigned i = 0; i < 64; i++) {
        unsigned sum = 0;
        for (unsigned k = 0; k < block_width * block_height; k++) {
            sum += whole[(i / 8 * block_height + k / block_width) * png.width + i % 8 * block_width + k % block_width];
        }
        pixels[i] = (uint8_t)(sum / (block_width * block_height));
    }
    free(whole);

    struct pen_error error = {.status = PEN_OK};
    struct pen_client_options options;
    pen_client *client;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argc > 2 ? argv[2] : options.endpoint;
    struct pen_tensor image = {"image", PEN_DTYPE_U8, 4, {1, 8, 8, 1}, pixels, sizeof pixels};
    struct pen_job_options job;
    pen_job_options_init(&job, sizeof job);
    job.model = "digits";
    job.inputs = &image;
    job.inputs_count = 1;
    job.deadline_us = 5000000;
    job.top_k = 1; /* the best class, with its name */

    pen_result *result;
    if (pen_client_connect(&options, &client, &error) != PEN_OK ||
        pen_client_run(client, &job, &result, &error) != PEN_OK) {
        fprintf(stderr, "%s: %s\n", pen_status_name(error.status), error.text);
        return 1;
    }
    const struct pen_annotation *told = pen_result_annotation(result, 0); /* of the first row: there is one picture */
    if (told && told->classes_count > 0) {
        printf("%s: %s (%.4f, %s, %llu us of computing)\n", argv[1], told->classes[0].name,
               (double)told->classes[0].score, pen_result_info(result)->backend,
               (unsigned long long)pen_result_info(result)->compute_us);
    } else {
        printf("%s: the worker is too old to name classes\n", argv[1]);
    }
    pen_result_free(result);
    pen_client_free(client);
    return 0;
}
