/* answer_show.c - an answer as lines for people. */
#include "answer_draw.h"

#include <stdio.h>

static void named_show(const cJSON *object)
{
    const char *label = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "label"));
    const cJSON *score = cJSON_GetObjectItemCaseSensitive(object, "score"),
                *class = cJSON_GetObjectItemCaseSensitive(object, "class");
    printf("  %8.4f  ", cJSON_IsNumber(score) ? score->valuedouble : 0.0);
    if (label) {
        printf("%s", label);
    } else if (cJSON_IsNumber(class)) {
        printf("class %.0f", class->valuedouble);
    } else {
        printf("object");
    }
}

static void object_show(const cJSON *object)
{
    const cJSON *box = cJSON_GetObjectItemCaseSensitive(object, "box"), *edge = NULL;
    int points = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(object, "points"));
    named_show(object);
    cJSON_ArrayForEach(edge, box)
    {
        printf(" %7.1f", edge->valuedouble);
    }
    if (points > 0) {
        printf("  %d points", points);
    }
    printf("\n");
}

static void rest_show(const cJSON *answer)
{
    const cJSON *points = cJSON_GetObjectItemCaseSensitive(answer, "points"),
                *mask = cJSON_GetObjectItemCaseSensitive(answer, "mask");
    if (points) {
        printf("  %d points, score %.4f\n", cJSON_GetArraySize(points),
               cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(answer, "score")));
    }
    if (mask) {
        printf("  mask of %.0f x %.0f pixels\n", cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(mask, "width")),
               cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(mask, "height")));
    }
}

bool answer_show(const pen_result *result)
{
    const cJSON *one = NULL;
    cJSON *answer = answer_read(result);
    if (!answer) {
        return false;
    }
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(answer, "classes"))
    {
        named_show(one);
        printf("\n");
    }
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(answer, "objects"))
    {
        object_show(one);
    }
    if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "objects")) == 0 &&
        cJSON_HasObjectItem(answer, "objects")) {
        printf("  nothing found\n");
    }
    rest_show(answer);
    cJSON_Delete(answer);
    return true;
}
