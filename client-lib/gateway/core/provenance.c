#include "provenance.h"

#include <inttypes.h>
#include <stdio.h>

static size_t text_add(struct provenance *list, size_t count, const char *name, const char *value)
{
    list[count] = (struct provenance){.name = name, .value = value};
    return *value ? count + 1 : count;
}

static size_t error_add(struct provenance *list, size_t count, const char *name, double error)
{
    list[count] = (struct provenance){.name = name};
    snprintf(list[count].number, sizeof list[count].number, "%.6g", error);
    list[count].value = list[count].number;
    return count + 1;
}

static size_t number_add(struct provenance *list, size_t count, const char *name, uint64_t number)
{
    list[count] = (struct provenance){.name = name};
    snprintf(list[count].number, sizeof list[count].number, "%" PRIu64, number);
    list[count].value = list[count].number;
    return count + 1;
}

static size_t rests_on(const pen_result *result, struct provenance ret_list[PROVENANCE_MAX])
{
    const struct pen_result_info *info = pen_result_info(result);
    size_t count = text_add(ret_list, 0, "backend", info->backend);
    count = text_add(ret_list, count, "device", info->device);
    count = text_add(ret_list, count, "precision", pen_precision_name(info->precision));
    count = text_add(ret_list, count, "library", info->library);
    count = text_add(ret_list, count, "isa", info->isa);
    count = text_add(ret_list, count, "engine_build", info->build);
    if (info->cached)
        count = number_add(ret_list, count, "age_us", info->age_us);
    if (!info->measured)
        return count;
    count = error_add(ret_list, count, "max_relative_error", info->error_largest);
    count = error_add(ret_list, count, "mean_relative_error", info->error_mean);
    count = number_add(ret_list, count, "error_inputs", info->error_inputs);
    return text_add(ret_list, count, "error_source", info->error_source);
}

size_t provenance_list(const struct inference *inference, const pen_result *result,
                       struct provenance ret_list[PROVENANCE_MAX])
{
    size_t count = inference->provenance ? rests_on(result, ret_list) : 0;
    return text_add(ret_list, count, "debug_log", pen_result_debug_log(result)); /* "" unless asked for */
}
