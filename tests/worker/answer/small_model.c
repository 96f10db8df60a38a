#include "small_model.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OUTPUTS_MAX 4
#define TEXT_BYTES  65536

struct pen_error small_error;
static struct pen_tensor given[OUTPUTS_MAX], results[ANSWER_OUTPUTS_MAX];
static size_t given_count, results_count;
static struct answer_work *work;
static struct answer *answer;

void small_open(void)
{
    work = answer_work_new();
    cr_assert_not_null(work);
}

void small_close(void)
{
    answer_free(answer);
    answer_work_free(work);
}

void small_output(const char *name, const float *values, int64_t a, int64_t b, int64_t c)
{
    struct pen_tensor *to = &given[given_count++];
    *to = (struct pen_tensor){.name = name, .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {1}, .data = values};
    for (size_t i = 0; i < 3; i++)
        if ((const int64_t[]){a, b, c}[i])
            to->dims[to->rank++] = (const int64_t[]){a, b, c}[i];
    to->bytes = sizeof *values * (size_t)(a * (b ? b : 1) * (c ? c : 1));
}

void small_forget(void)
{
    given_count = 0;
}

struct pen_tensor *small_given(size_t index)
{
    return &given[index];
}

static enum pen_status compile(const char *text)
{
    static char first[] = "cat", second[] = "dog";
    static char *const labels[] = {first, second};
    const struct classes_quant quants[OUTPUTS_MAX] = {{.known = false}};
    const struct answer_model model = {.outputs = given,
                                       .outputs_count = given_count,
                                       .quants = quants,
                                       .height = 32,
                                       .width = 32,
                                       .batched = true,
                                       .labels = labels,
                                       .labels_count = 2};
    answer_free(answer);
    answer = NULL;
    small_error = (struct pen_error){0};
    return answer_new(text, &model, &answer, &small_error);
}

enum pen_status small_compile(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return compile(text);
}

enum pen_status small_go(const struct answer_map *map)
{
    const struct answer_job job = {.outputs = given, .count = given_count, .rows = 1, .maps = map};
    answer_outputs(answer, &results_count);
    return answer_run(answer, work, &job, results, &small_error);
}

void small_run(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cr_assert_eq(compile(text), PEN_OK, "%s", small_error.text);
    cr_assert_eq(small_go(NULL), PEN_OK, "%s", small_error.text);
}

const struct pen_tensor *small_tensor(const char *name)
{
    for (size_t i = 0; i < results_count; i++)
        if (strcmp(results[i].name, name) == 0)
            return &results[i];
    cr_assert_fail("no result '%s'", name);
    return NULL;
}

const void *small_result(const char *name)
{
    return small_tensor(name)->data;
}

int32_t small_objects(void)
{
    return *(const int32_t *)small_result("count");
}
