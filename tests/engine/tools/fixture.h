/*
 * fixture.h - small cases in the three layouts, and penstock-engine as a program with what it printed.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef TOOLS_FIXTURE_H
#define TOOLS_FIXTURE_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "folder.h"
#include "process.h"

#define PATH_BYTES 512
#define ARGS(...)  ((const char *const[]){__VA_ARGS__, NULL})

/* A folder for one test. */
extern char folder[FOLDER_PATH_BYTES];
void fixture_setup(void);
void fixture_teardown(void);
char *keep(char *text); /* freed when the test ends */

/* One float operator x -> y over shape [1, count], or [n, n] -> [] when square. */
struct sample {
    const char *op;
    size_t count;
    const float *in, *out;
    bool square; /* x is [n, n] with n * n = count and y a scalar */
};

/* `name` is relative to the folder; missing folders are made. */
void onnx_case(const char *name, const struct sample *s);   /* NAME/model.onnx, NAME/test_data_set_0/... */
void golden_case(const char *name, const struct sample *s); /* NAME/model.onnx, NAME/golden/case.json and .bin */
void light_case(const char *name, const struct sample *s);  /* NAME.onnx, NAME_output_0.pb: its input is i / count */
void set_write(const char *name, unsigned set, const struct sample *s); /* another data set of an ONNX case */
void byte_flip(const char *name, long from_end);                        /* of a file: XOR 0x40 */
void text_write(const char *name, const char *text);

/* A test's usual operators and answers. */
extern const struct sample relu;       /* every backend */
extern const struct sample relu_wrong; /* expects what Relu does not give */
extern const struct sample det;        /* reference only */

/* What a run printed; the texts live until the test ends. */
struct printed {
    int status;
    char *out, *err;
};
struct printed engine(const char *const arguments[]);
/* `verify ARGUMENTS folder`. */
struct printed verify(const char *const arguments[]);

/* Field `index` of the line whose second field is `name`. Fails without such a line. */
const char *field(const struct printed *p, const char *name, unsigned index);
const char *last_line(const struct printed *p);
cJSON *json_of(const struct printed *p); /* the one object printed, status 0 or 1 */
void expect_keys(const cJSON *object, const char *const keys[]);

const char *path_of(const char *name); /* in the folder; lives until the test ends */

#endif
