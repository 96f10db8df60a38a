/* usage.h and trace_rules.h: counts, and which requests are traced. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "trace_rules.h"
#include "usage.h"

Test(usage, requests_rows_and_batches_are_counted_apart)
{
    struct usage *usage = usage_new();
    struct usage_request request = {.model = "m",
                                    .backend = "xnnpack",
                                    .version = 1,
                                    .rows = 2,
                                    .total_ns = 900,
                                    .queue_ns = 10,
                                    .infer_ns = 400,
                                    .batch = 4};
    size_t at = 0;
    for (int i = 0; i < 8; i++)
        usage_add(usage, &request);
    request.backend = "vulkan";
    request.batch = 1;
    usage_add(usage, &request);
    request.cached = true;
    usage_add(usage, &request);
    request.failed = request.cancelled = true;
    usage_add(usage, &request);
    const struct usage_model *model = usage_next(usage, "m", 1, &at);
    cr_assert_not_null(model);
    cr_assert(model->success.count == 10 && model->fail.count == 1 && model->hit.count == 1 && model->miss.count == 9 &&
              model->cancelled == 1);
    cr_assert(model->rows == 18 && model->executions > 2.99 && model->executions < 3.01);
    cr_assert(model->batches_count == 2 && model->batches[0].size == 4 && model->batches[0].executions == 2.0);
    cr_assert(model->backends_count == 2 && model->backends[0].count == 8 && model->backends[1].rows == 2);
    cr_assert_null(usage_next(usage, "m", 1, &at));
    at = 0;
    cr_assert_null(usage_next(usage, "n", 0, &at));
    usage_free(usage);
}

Test(usage, models_have_a_limit)
{
    struct usage *usage = usage_new();
    char name[16];
    for (int i = 0; i < USAGE_MODELS_MAX + 5; i++) {
        snprintf(name, sizeof name, "m%d", i);
        usage_add(usage, &(struct usage_request){.model = name, .backend = ""});
    }
    cr_assert_eq(usage_uncounted(usage), 5);
    usage_free(usage);
}

Test(trace_rules, a_model_follows_its_own_rule_or_that_of_all)
{
    struct trace_rules *rules = trace_rules_new();
    cr_assert(!trace_rules_ask(rules, "m"));
    trace_rules_set(rules, NULL, &(struct trace_rule){.on = true, .rate = 3, .left = -1});
    int traced = 0;
    for (int i = 0; i < 9; i++)
        traced += trace_rules_ask(rules, "m");
    cr_assert_eq(traced, 3);
    trace_rules_set(rules, "m", &(struct trace_rule){.on = true, .rate = 1, .left = 2});
    cr_assert(trace_rules_ask(rules, "m") && trace_rules_ask(rules, "m") && !trace_rules_ask(rules, "m"));
    cr_assert(trace_rules_get(rules, "m").left == 0 && trace_rules_get(rules, "other").rate == 3);
    trace_rules_set(rules, "m", NULL);
    cr_assert_eq(trace_rules_get(rules, "m").rate, 3);
    trace_rules_free(rules);
}
