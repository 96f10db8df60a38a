/* Described TFLite models that are run with inputs meant to hurt. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "case_model.h"
#include "folder.h"
#include "penstock/engine.h"

/* CVE-2020-15212: SEGMENT_SUM trusted its ids. Here negative ones fall away, and one beyond every budget is an error. */
Test(lite_run, segment_ids_lead_nowhere_outside)
{
    static const char described[] = "{\"codes\":[[125]],\"sub\":[{\"t\":[{\"t\":\"float32\",\"s\":[3,2],\"n\":\"x\"},{"
                                    "\"t\":\"int32\",\"s\":[3],\"n\":\"ids\"},"
                                    "{\"t\":\"float32\",\"s\":[2,2],\"n\":\"y\"}],\"i\":[0,1],\"o\":[2],\"ops\":[{"
                                    "\"c\":0,\"i\":[0,1],\"o\":[2]}]}]}";
    static const int32_t ids[][3] = {{-7, 0, 1}, {0, 0, 1}, {0, 1, INT32_MAX}, {INT32_MIN, -1, -1}};
    static const float x[] = {1, 2, 3, 4, 5, 6};
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *m = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    cJSON *json = cJSON_Parse(described);
    cr_assert(json);
    folder_new(folder);
    case_model_write(json, folder, false, path, sizeof path);
    pen_engine_options_init(&options);
    options.backend = "reference";
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK);
    cr_assert_eq(pen_model_load(engine, path, &m, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(m, &session, &error), PEN_OK);
    for (size_t i = 0; i < 4; i++) {
        const struct pen_tensor in[] = {
            {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {3, 2}, .data = x, .bytes = sizeof x},
            {.name = "ids", .dtype = PEN_DTYPE_I32, .rank = 1, .dims = {3}, .data = ids[i], .bytes = sizeof ids[i]}};
        const struct pen_tensor *out = NULL;
        size_t outs = 0;
        enum pen_status status = pen_session_run(session, in, 2, NULL, &out, &outs, &error);
        if (i < 2) {
            cr_assert_eq(status, PEN_OK, "%s", error.text);
            const float *y = out[0].data;
            cr_expect(i == 0 ? y[0] == 3 && y[2] == 5 : y[0] == 4 && y[2] == 5);
        } else if (i == 2) {
            cr_expect_neq(status, PEN_OK);
        }
    }
    pen_session_free(session);
    pen_model_free(m);
    pen_engine_free(engine);
    folder_free(folder);
    cJSON_Delete(json);
}
