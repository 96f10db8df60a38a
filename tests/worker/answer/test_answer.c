/* Steps after a model against NumPy's numbers (cases.json, which make.py writes), and by hand. */
#include "answer.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_BYTES_MAX (4u * 1024u * 1024u)
#define OUTPUTS_MAX     8

static struct pen_error error;

/* ---- the cases of the file ---- */

static cJSON *cases_read(void)
{
    FILE *file = fopen(PENSTOCK_SOURCE "/tests/worker/answer/cases.json", "r");
    char *text = calloc(1, CASES_BYTES_MAX);
    cr_assert(file && text);
    cr_assert(fread(text, 1, CASES_BYTES_MAX - 1, file) > 1000);
    fclose(file);
    cJSON *cases = cJSON_Parse(text);
    free(text);
    cr_assert(cJSON_GetArraySize(cases) >= 50);
    return cases;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return text ? text : "";
}

static double number_of(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

static double item_of(const cJSON *list, int index)
{
    return cJSON_GetNumberValue(cJSON_GetArrayItem(list, index));
}

/* The same numbers as make.py's seeded(). */
static double seeded(uint64_t seed, uint64_t index, double low, double high)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (double)(float)(low + (high - low) * ((double)(z >> 40) / 16777216.0));
}

static void value_put(struct pen_tensor *tensor, size_t index, double value)
{
    void *data = (void *)(uintptr_t)tensor->data;
    switch (tensor->dtype) {
    case PEN_DTYPE_F16:
        ((uint16_t *)data)[index] = pen_f32_to_f16((float)value);
        break;
    case PEN_DTYPE_U8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    case PEN_DTYPE_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    default:
        ((float *)data)[index] = (float)value;
    }
}

static struct pen_tensor tensor_make(const cJSON *output)
{
    const char *dtype = text_of(output, "dtype");
    struct pen_tensor tensor = {.name = text_of(output, "name"), .dtype = pen_dtype_parse(*dtype ? dtype : "f32")};
    uint64_t elements = 0;
    for (const cJSON *dim = cJSON_GetObjectItem(output, "dims")->child; dim; dim = dim->next)
        tensor.dims[tensor.rank++] = (int64_t)dim->valuedouble;
    cr_assert(pen_tensor_elements(&tensor, &elements) == PEN_OK);
    cr_assert(pen_dtype_bytes(tensor.dtype, elements, &tensor.bytes) == 0);
    tensor.data = calloc(1, tensor.bytes);
    for (uint64_t i = 0; i < elements; i++)
        value_put(&tensor, (size_t)i,
                  seeded((uint64_t)number_of(output, "seed"), i, number_of(output, "low"), number_of(output, "high")));
    return tensor;
}

static struct answer_map map_make(const cJSON *json)
{
    struct answer_map map = {.width = number_of(json, "width"), .height = number_of(json, "height")};
    for (int i = 0; i < 6; i++)
        map.m[i] = item_of(cJSON_GetObjectItem(json, "m"), i);
    return map;
}

struct loaded {
    struct pen_tensor outputs[OUTPUTS_MAX];
    struct classes_quant quants[OUTPUTS_MAX];
    struct answer_map map;
    struct answer_model model;
    struct answer_job job;
    struct answer *answer;
};

/* known: the model's dims are there at load; else they are free, as those of many files. */
static void case_load(const cJSON *one, bool known, struct loaded *l)
{
    struct pen_tensor signature[OUTPUTS_MAX];
    size_t count = 0;
    *l = (struct loaded){.answer = NULL};
    for (const cJSON *output = cJSON_GetObjectItem(one, "outputs")->child; output; output = output->next, count++) {
        l->outputs[count] = signature[count] = tensor_make(output);
        if (l->outputs[count].dtype == PEN_DTYPE_U8)
            l->quants[count] = (struct classes_quant){.known = true, .scale = 0.5f, .zero_point = 3};
        signature[count].dims[0] = cJSON_IsTrue(cJSON_GetObjectItem(one, "batched")) ? -1 : signature[count].dims[0];
        for (uint32_t d = 0; !known && d + 1 < signature[count].rank; d++)
            signature[count].dims[d] = -1;
    }
    const cJSON *size = cJSON_GetObjectItem(one, "size"), *maps = cJSON_GetObjectItem(one, "maps");
    l->model = (struct answer_model){.outputs = signature,
                                     .outputs_count = count,
                                     .quants = l->quants,
                                     .height = (uint32_t)item_of(size, 0),
                                     .width = (uint32_t)item_of(size, 1),
                                     .batched = cJSON_IsTrue(cJSON_GetObjectItem(one, "batched"))};
    l->job = (struct answer_job){.outputs = l->outputs, .count = count, .rows = (uint32_t)number_of(one, "rows")};
    if (cJSON_IsArray(maps)) {
        l->map = map_make(maps->child);
        l->job.maps = &l->map;
    }
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(one, "answer"));
    enum pen_status status = answer_new(text, &l->model, &l->answer, &error);
    cr_assert(status == PEN_OK, "%s: %s", text_of(one, "name"), error.text);
    free(text);
    for (size_t i = 0; i < count; i++)
        l->outputs[i].name = NULL;
}

static void case_unload(struct loaded *l)
{
    answer_free(l->answer);
    for (size_t i = 0; i < l->job.count; i++)
        free((void *)(uintptr_t)l->outputs[i].data);
}

static void tensor_compare(const char *name, const struct pen_tensor *got, const cJSON *want, double tolerance)
{
    const cJSON *dims = cJSON_GetObjectItem(want, "dims"), *values = cJSON_GetObjectItem(want, "values");
    cr_assert(got->rank == (uint32_t)cJSON_GetArraySize(dims), "%s %s: rank %u", name, got->name, got->rank);
    for (uint32_t d = 0; d < got->rank; d++)
        cr_assert(got->dims[d] == (int64_t)item_of(dims, (int)d), "%s %s: dimension %u is %lld", name, got->name, d,
                  (long long)got->dims[d]);
    size_t index = 0, wrong = 0;
    for (const cJSON *value = values->child; value; value = value->next, index++) {
        double number = tensor_value(got, index), off = fabs(number - value->valuedouble);
        bool same = off <= tolerance * (1 + fabs(value->valuedouble));
        wrong += !same;
        cr_assert(same || got->dtype == PEN_DTYPE_U8, "%s %s[%zu]: %.8g, NumPy says %.8g", name, got->name, index,
                  number, value->valuedouble);
    }
    cr_assert(wrong * 1000 <= index, "%s: %zu of %zu pixels differ", name, wrong, index); /* a score on the threshold */
}

static void case_compare(const cJSON *one, const struct pen_tensor *tensors, size_t count)
{
    const cJSON *expect = cJSON_GetObjectItem(one, "expect");
    cr_assert(count == (size_t)cJSON_GetArraySize(expect), "%s: %zu tensors", text_of(one, "name"), count);
    for (size_t i = 0; i < count; i++) {
        const cJSON *want = cJSON_GetObjectItem(expect, tensors[i].name);
        cr_assert(want, "%s: nobody expects '%s'", text_of(one, "name"), tensors[i].name);
        tensor_compare(text_of(one, "name"), &tensors[i], want, number_of(one, "tolerance"));
    }
}

static void case_run(const cJSON *one, struct answer_work *work, bool known)
{
    struct loaded l;
    struct pen_tensor tensors[ANSWER_OUTPUTS_MAX];
    size_t count = 0;
    case_load(one, known, &l);
    const struct pen_tensor *signature = answer_outputs(l.answer, &count);
    enum pen_status status = answer_run(l.answer, work, &l.job, tensors, &error);
    cr_assert(status == PEN_OK, "%s: %s", text_of(one, "name"), error.text);
    for (size_t i = 0; i < count; i++)
        cr_assert(tensors[i].rank == signature[i].rank && tensors[i].dtype == signature[i].dtype);
    case_compare(one, tensors, count);
    case_unload(&l);
}

Test(answer, results_equal_numpy)
{
    cJSON *cases = cases_read();
    struct answer_work *work = answer_work_new();
    for (const cJSON *one = cases->child; one; one = one->next)
        case_run(one, work, true);
    answer_work_free(work);
    cJSON_Delete(cases);
}

/* Many files leave all dims but the last one open: the shapes are those of the run. */
Test(answer, results_are_the_same_when_shapes_are_known_at_the_run_alone)
{
    cJSON *cases = cases_read();
    struct answer_work *work = answer_work_new();
    for (const cJSON *one = cases->child; one; one = one->next)
        if (!strstr(text_of(one, "name"), "points") || strstr(text_of(one, "name"), "yolov8"))
            case_run(one, work, false);
    answer_work_free(work);
    cJSON_Delete(cases);
}

/* ---- by hand ---- */

/* Compiles for outputs "boxes" [n, 3, 4], "scores" [n, 3, 2], "map" [n, 2, 2, 2]; NULL: refused. */
static struct answer *compile(const char *text)
{
    static char label0[] = "cat", label1[] = "d\"og";
    static char *const labels[] = {label0, label1};
    const struct pen_tensor outputs[] = {
        {.name = "boxes", .dtype = PEN_DTYPE_F32, .rank = 3, .dims = {-1, 3, 4}},
        {.name = "scores", .dtype = PEN_DTYPE_F32, .rank = 3, .dims = {-1, 3, 2}},
        {.name = "map", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, 2, 2, 2}},
    };
    const struct classes_quant quants[3] = {{.known = false}};
    const struct answer_model model = {.outputs = outputs,
                                       .outputs_count = 3,
                                       .quants = quants,
                                       .height = 10,
                                       .width = 20,
                                       .batched = true,
                                       .labels = labels,
                                       .labels_count = 2};
    struct answer *answer = NULL;
    error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = answer_new(text, &model, &answer, &error);
    cr_assert((status == PEN_OK) == (answer != NULL));
    return answer;
}

static void refused(const char *text, const char *part)
{
    struct answer *answer = compile(text);
    cr_assert_null(answer, "%s is taken", text);
    cr_expect(strstr(error.text, part), "'%s' is not in '%s'", part, error.text);
}

#define MASKED "{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"scores\",\"coefficients\":2,\"coefficients_at\":1}}"
#define HEADS  "{\"boxes\":{\"form\":\"yolov5\",\"heads\":[{\"output\":\"map\",\"stride\":10,\"anchors\":[[1,2]]}]"
#define BOXES  "{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"scores\"}}"

/* What is wrong is refused at load, with what there is. */
Test(answer, unknown_things_are_refused_with_a_list)
{
    refused("{}", "the key 'steps' is missing");
    refused("{\"steps\":[]}", "1 to 16 steps");
    refused("{\"steps\":[{\"nsm\":{}}]}", "answer.steps[0]: there is no step 'nsm', did you mean 'nms'?; there are "
                                          "softmax, sigmoid, top_k, boxes, centernet, "
                                          "nms, points, poses, mask");
    refused("{\"steps\":[{\"nms\":{}}]}", "no step before it finds objects");
    refused("{\"steps\":[" BOXES ",{\"nms\":{\"io\":1}}]}",
            "answer.steps[1] (nms): unknown key 'io', did you mean 'iou'?; there are kind, iou, per_class, max, sigma");
    refused("{\"steps\":[" BOXES ",{\"nms\":{\"kind\":\"fast\"}}]}",
            "kind is 'fast'; it must be one of hard|linear|gaussian|weighted");
    refused("{\"steps\":[" BOXES ",{\"nms\":{\"iou\":1.5}}]}", "iou must be a number from 0 to 1");
    refused("{\"steps\":[" BOXES "," BOXES "]}", "a step before it gives the same kind of result");
    refused("{\"steps\":[{\"softmax\":{\"output\":\"score\"}}]}",
            "the model has no output 'score'; it has boxes, scores, map");
    refused("{\"steps\":[{\"softmax\":{\"output\":\"scores\"}}]}", "no step gives a result");
    refused("{\"steps\":[{\"softmax\":{\"output\":\"scores\",\"axis\":-4}}]}", "takes 4 to 8 dimensions");
    refused("{\"steps\":[" BOXES "],\"format\":\"xml\"}", "it must be one of tensors|json");
    refused("{\"steps\":[" BOXES "],\"form\":\"json\"}", "did you mean 'format'?");
    refused("{\"steps\":[" BOXES "],\"skeleton\":[[0,1]]}", "skeleton[0] names a point that is not there");
    refused("{\"steps\":[{\"top_k\":{}}]}", "the key 'output' is missing");
    refused("{\"steps\":[" BOXES ",{\"top_k\":{\"output\":\"scores\"}}]}", "2 labels");
}

/* Shapes that do not suit the model, too. */
Test(answer, shapes_that_do_not_fit_are_refused_at_load)
{
    refused("{\"steps\":[{\"boxes\":{\"boxes\":\"scores\",\"scores\":\"scores\"}}]}",
            "boxes need column 3, but output 'scores' has 2 columns");
    refused("{\"steps\":[{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"map\"}}]}",
            "output 'map' has 4 proposals and 'boxes' 3");
    refused("{\"steps\":[{\"boxes\":{\"form\":\"yolox\",\"boxes\":\"boxes\",\"scores\":\"scores\"}}]}",
            "the model gives 3 boxes, and the anchors are");
    refused("{\"steps\":[{\"boxes\":{\"form\":\"ssd\",\"boxes\":\"boxes\",\"scores\":\"scores\"}}]}",
            "this form needs the key 'anchors'");
    refused("{\"steps\":[{\"boxes\":{\"form\":\"yolov5\",\"heads\":[{\"output\":\"map\",\"stride\":10,\"anchors\":"
            "[[1,2]]}]}}]}",
            "output 'map' is no head of 1 anchors on 1 x 2 cells");
    refused("{\"steps\":[{\"poses\":{\"heat\":\"boxes\",\"offsets\":\"map\",\"single\":true,\"x\":1}}]}",
            "unknown key 'x'");
    refused("{\"steps\":[{\"mask\":{\"output\":\"map\",\"form\":\"best\"}}]}",
            "one of argmax|threshold|classes|instances");
    refused("{\"steps\":[" BOXES ",{\"mask\":{\"output\":\"map\",\"form\":\"instances\"}}]}", "with 'coefficients'");
    refused("{\"steps\":[{\"boxes\":{\"form\":\"yolov8\",\"boxes\":\"scores\",\"coefficients\":2}}]}",
            "boxes need column 3");
    refused("{\"steps\":[{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"scores\",\"coefficients\":2,\"coefficients_at\":"
            "3}}]}",
            "coefficients need column 4, but output 'boxes' has 4 columns");
    refused("{\"steps\":[" HEADS ",\"coefficients\":2}}]}", "have neither 'coefficients' nor 'turned'");
    refused("{\"steps\":[" HEADS ",\"turned\":true}}]}", "have neither 'coefficients' nor 'turned'");
    refused("{\"steps\":[" MASKED ",{\"mask\":{\"output\":\"map\",\"form\":\"instances\"}}]}", "room for 254 objects");
    refused("{\"steps\":[" MASKED ",{\"nms\":{}},{\"mask\":{\"output\":\"map\",\"form\":\"instances\"}},{\"nms\":{}}]}",
            "nms must come before it");
    refused("{\"steps\":[{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"scores\",\"turned\":true}},{\"nms\":{\"kind\":"
            "\"weighted\"}}]}",
            "turned boxes have no weighted mean");
    refused("{\"steps\":[{\"boxes\":{\"boxes\":\"boxes\",\"scores\":\"scores\",\"angle_at\":3}}]}",
            "angle_at 'turned'");
    refused("{\"steps\":[{\"boxes\":{\"form\":\"ssd\",\"boxes\":\"boxes\",\"anchors\":{\"generate\":{\"strides\":"
            "[1,1],\"aspects\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},\"layers\":[]}}}]}",
            "must have one key, layers or generate");
    refused("{\"size\":[4000,4000],\"steps\":[{\"boxes\":{\"form\":\"ssd\",\"boxes\":\"boxes\",\"anchors\":{"
            "\"generate\":{\"strides\":[1]}}}}]}",
            "its anchors are more than 65536");
}

static const float boxes_values[12] = {0, 0, 10, 10, 1, 1, 11, 11, 12, 2, 18, 8};
static const float scores_values[6] = {0.9f, 0.1f, 0.8f, 0.2f, 0.3f, 0.7f};
static const float map_values[8] = {0, 1, 1, 0, 1, 0, 0, 1};

static struct answer_job job_of(struct pen_tensor outputs[3])
{
    outputs[0] = (struct pen_tensor){NULL, PEN_DTYPE_F32, 3, {1, 3, 4}, boxes_values, sizeof boxes_values};
    outputs[1] = (struct pen_tensor){NULL, PEN_DTYPE_F32, 3, {1, 3, 2}, scores_values, sizeof scores_values};
    outputs[2] = (struct pen_tensor){NULL, PEN_DTYPE_F32, 4, {1, 2, 2, 2}, map_values, sizeof map_values};
    return (struct answer_job){.outputs = outputs, .count = 3, .rows = 1};
}

/* The JSON of one row; free it. */
static char *answer_text(const char *config, const struct answer_map *map)
{
    struct pen_tensor outputs[3], tensors[ANSWER_OUTPUTS_MAX];
    struct answer *answer = compile(config);
    struct answer_work *work = answer_work_new();
    struct answer_job job = job_of(outputs);
    job.maps = map;
    cr_assert(answer && work, "%s", error.text);
    cr_assert(answer_run(answer, work, &job, tensors, &error) == PEN_OK, "%s", error.text);
    cr_assert(pen_tensor_check(&tensors[0], &error) == PEN_OK, "%s", error.text);
    cr_assert(strcmp(tensors[0].name, "answer") == 0 && tensors[0].dtype == PEN_DTYPE_STRING);
    char *text = strndup((const char *)tensors[0].data + 4, tensors[0].bytes - 4);
    answer_free(answer);
    answer_work_free(work);
    return text;
}

/* Shared 81 of 119: 0.68. */
Test(answer, json_tells_objects_in_the_pictures_pixels)
{
    const struct answer_map map = {.width = 40, .height = 40, .m = {2, 0, 0, 0, 4, 0}};
    char *text = answer_text("{\"format\":\"json\",\"steps\":[" BOXES ",{\"nms\":{\"iou\":0.6}}]}", &map);
    cr_expect_str_eq(text,
                     "{\"width\":40,\"height\":40,\"objects\":[{\"class\":0,\"label\":\"cat\",\"score\":0.9,"
                     "\"box\":[0.00,0.00,20.00,40.00]},{\"class\":1,\"label\":\"d\\u0022og\",\"score\":0.7,\"box\":"
                     "[24.00,8.00,36.00,32.00]}]}");
    free(text);
    text = answer_text("{\"format\":\"json\",\"clip\":true,\"steps\":[" BOXES ",{\"nms\":{\"iou\":0.7}}]}", NULL);
    cr_expect(strstr(text, "\"box\":[1.00,1.00,11.00,10.00]"), "cut at the picture's edge: %s", text);
    free(text);
}

/* Everything beside each other; a PNG of 2 x 2 in base64. */
Test(answer, json_tells_masks_with_their_labels)
{
    char *text = answer_text("{\"format\":\"json\",\"steps\":[{\"mask\":{\"output\":\"map\",\"form\":\"argmax\","
                             "\"size\":\"model\"}}]}",
                             NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *mask = cJSON_GetObjectItem(json, "mask");
    cr_assert(mask, "%s", text);
    cr_expect(number_of(mask, "width") == 2 && number_of(mask, "height") == 2);
    cr_expect(strncmp(text_of(mask, "png"), "iVBORw0KGgo", 11) == 0, "the beginning of a PNG: %s", text);
    cr_expect_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "labels"), 1)->valuestring, "d\"og");
    cJSON_Delete(json);
    free(text);
}

/* Numbers that are none are no objects; a model that gives other shapes than it said is refused at the run. */
Test(answer, nan_and_wrong_shapes_at_the_run)
{
    struct pen_tensor outputs[3], tensors[ANSWER_OUTPUTS_MAX];
    float nothing[6] = {NAN, NAN, NAN, NAN, NAN, 0.9f};
    struct answer *answer = compile("{\"steps\":[" BOXES ",{\"nms\":{}}]}");
    struct answer_work *work = answer_work_new();
    struct answer_job job = job_of(outputs);
    outputs[1].data = nothing;
    cr_assert(answer_run(answer, work, &job, tensors, &error) == PEN_OK, "%s", error.text);
    cr_expect(*(const int32_t *)tensors[0].data <= 1);
    outputs[1].dims[1] = 2;
    outputs[1].bytes = 16;
    cr_assert(answer_run(answer, work, &job, tensors, &error) == PEN_ERR_SHAPE);
    cr_expect(strstr(error.text, "answer.steps[0] (boxes): output 'scores' has 2 proposals and 'boxes' 3"), "%s",
              error.text);
    job.count = 1;
    cr_expect(answer_run(answer, work, &job, tensors, &error) == PEN_ERR_SHAPE);
    answer_free(answer);
    answer_work_free(work);
}

/* More than an answer may take is an error, and no crash. */
Test(answer, memory_is_bounded)
{
    struct pen_tensor outputs[3], tensors[ANSWER_OUTPUTS_MAX];
    struct answer *answer = compile("{\"steps\":[{\"mask\":{\"output\":\"map\",\"form\":\"argmax\"}}]}");
    struct answer_work *work = answer_work_new();
    struct answer_job job = job_of(outputs);
    struct answer_map map = {.width = 60000, .height = 60000, .m = {1, 0, 0, 0, 1, 0}};
    job.maps = &map;
    cr_expect(answer_run(answer, work, &job, tensors, &error) == PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "say size model"), "%s", error.text);
    map.width = map.height = 1000;
    cr_expect(answer_run(answer, work, &job, tensors, &error) == PEN_OK, "%s", error.text);
    answer_free(answer);
    answer_work_free(work);
}
