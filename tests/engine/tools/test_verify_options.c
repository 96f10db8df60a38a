/* Each option of verify does something, and each way of ending has its exit code. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fixture.h"
#include "onnx_file.h"

TestSuite(verify_options, .init = fixture_setup, .fini = fixture_teardown);

static void cases(void)
{
    onnx_case("node/test_det", &det);
    onnx_case("node/test_relu", &relu);
    onnx_case("node/test_wrong", &relu_wrong);
    onnx_case("simple/test_relu_too", &relu);
}

Test(verify_options, list_prints_names_and_runs_nothing)
{
    cases();
    struct printed p = verify(ARGS("--list"));
    cr_assert_eq(p.status, 0);
    cr_assert_str_eq(p.out, "node/test_det\nnode/test_relu\nnode/test_wrong\nsimple/test_relu_too\n");
    p = verify(ARGS("--list", "--filter", "simple/*"));
    cr_assert_str_eq(p.out, "simple/test_relu_too\n");
}

Test(verify_options, filter_is_a_part_or_a_pattern)
{
    cases();
    cr_assert_str_eq(last_line(&(struct printed){.out = verify(ARGS("--filter", "relu")).out}),
                     "2 passed, 0 failed, 0 skipped");
    struct printed p = verify(ARGS("--filter", "node/test_*e*"));
    cr_assert_str_eq(last_line(&p), "2 passed, 0 failed, 0 skipped", "%s", p.out);
    p = verify(ARGS("--filter", "test_relu*")); /* a pattern is for the whole name */
    cr_assert_str_eq(last_line(&p), "0 passed, 0 failed, 0 skipped", "%s", p.out);
    p = verify(ARGS("--filter", "wrong"));
    cr_assert_eq(p.status, 1);
}

Test(verify_options, jobs_change_neither_order_nor_results)
{
    char name[32];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "case_%02d", i);
        onnx_case(name, i % 7 == 3 ? &relu_wrong : i % 5 == 0 ? &det : &relu);
    }
    struct printed one = verify(ARGS("--backend", "reference"));
    struct printed four = verify(ARGS("--backend", "reference", "--jobs", "4"));
    cr_assert_str_eq(one.out, four.out);
    cr_assert_eq(four.status, 1);
    cr_assert_str_eq(last_line(&four), "34 passed, 6 failed, 0 skipped");
}

/* The first child of a process, 0 when it has none. */
/* Processor time that a process has used so far, in clock ticks; 0: it is not there. */
static unsigned long ticks_of(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f != NULL) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    const char *rest = strrchr(text, ')');
    return rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2
               ? user + system
               : 0;
}

/* The child of `pid` that has used so much time, whichever it is by now; 0: none has. */
static pid_t child_at_work(pid_t pid, unsigned long ticks)
{
    char path[64];
    int child = 0, found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && found == 0 && fscanf(f, "%d", &child) == 1) {
        found = ticks_of(child) >= ticks ? child : 0;
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

Test(verify_options, a_crash_fails_one_case_and_the_rest_goes_on)
{
    onnx_case("a_long_one", &relu);
    onnx_write_slow(path_of("a_long_one/model.onnx"), 256);
    onnx_case("b", &relu);
    onnx_case("c", &relu);
    /* The data set: zeros of [1, 16, 64, 64], as TensorProto with raw data. */
    size_t count = 16 * 64 * 64;
    uint8_t head[] = {8, 1, 8, 16, 8, 64, 8, 64, 16, 1, 9 << 3 | 2, 0x80, 0x80, 0x10};
    uint8_t *bytes = calloc(1, sizeof head + 4 * count);
    cr_assert_not_null(bytes);
    memcpy(bytes, head, sizeof head);
    file_write(path_of("a_long_one/test_data_set_0/input_0.pb"), bytes, sizeof head + 4 * count);
    file_write(path_of("a_long_one/test_data_set_0/output_0.pb"), bytes, sizeof head + 4 * count);
    free(bytes);
    struct process *p = process_start(
        ARGS("penstock-engine", "verify", "--backend", "reference", "--jobs", "2", "--filter", "a_long_one", folder),
        NULL);
    uint64_t until = support_now_us() + 1000u * (uint64_t)support_slow(10000);
    pid_t child = 0;
    while (child == 0 && support_now_us() < until) {
        child =
            child_at_work(process_pid(p),
                          4); /* with 40 ms of work behind it, it is inside the case: 256 layers take about a second */
        support_sleep_ms(1);
    }
    cr_assert_neq(child, 0, "no process of a case was seen at work");
    kill(child, SIGKILL);
    int status = process_wait(p, 60000);
    cr_assert_eq(status, 1, "exit code %d: %s%s", status, process_out(p), process_err(p));
    cr_assert_not_null(strstr(process_out(p), "crashed: the process ended by signal 9"), "%s", process_out(p));
    cr_assert_not_null(strstr(process_out(p), "0 passed, 1 failed, 0 skipped"), "%s", process_out(p));
    process_free(p);
}

Test(verify_options, expected_failures_must_fail)
{
    cases();
    text_write("list", "# known\n\ntest_wrong\tits answer is wrong on purpose\n");
    struct printed p = verify(ARGS("--backend", "reference", "--expected", path_of("list")));
    cr_assert_str_eq(last_line(&p), "3 passed, 0 failed, 1 skipped", "%s%s", p.out, p.err);
    cr_assert_eq(p.status, 0);
    cr_assert_not_null(strstr(field(&p, "node/test_wrong", 5), "wrong on purpose"), "%s", p.out);

    text_write("list", "test_*relu*\tit passes, in truth\nnode/test_wrong\twrong on purpose\n");
    p = verify(ARGS("--backend", "reference", "--expected", path_of("list")));
    cr_assert_str_eq(last_line(&p), "1 passed, 2 failed, 1 skipped", "%s", p.out);
    cr_assert_eq(p.status, 1);
    cr_assert_not_null(strstr(field(&p, "node/test_relu", 5), "expected to fail but passed"), "%s", p.out);

    text_write("list", "conformance/node/test_wrong\tnamed from further up\ntest_relu\trandom, as if\n");
    p = verify(ARGS("--backend", "reference", "--expected", path_of("list")));
    cr_assert_str_eq(last_line(&p), "2 passed, 0 failed, 2 skipped", "%s", p.out);
}

Test(verify_options, an_expected_failure_needs_a_reason)
{
    cases();
    text_write("list", "test_wrong\n");
    struct printed p = verify(ARGS("--expected", path_of("list")));
    cr_assert_eq(p.status, 2);
    cr_assert_not_null(strstr(p.err, "list:1"), "%s", p.err);
    p = verify(ARGS("--expected", path_of("no_such_list")));
    cr_assert_eq(p.status, 2);
    cr_assert_not_null(strstr(p.err, "no_such_list"), "%s", p.err);
    text_write("list", "test_of_elsewhere\tnot here\n");
    p = verify(ARGS("--filter", "relu", "--expected", path_of("list")));
    cr_assert_str_eq(p.err, "");
    p = verify(ARGS("--expected", path_of("list")));
    cr_assert_not_null(strstr(p.err, "'test_of_elsewhere' names no case of this run"), "%s", p.err);
}

Test(verify_options, by_op_sums_the_cases_of_each_operator)
{
    cases();
    struct printed p = verify(ARGS("--backend", "reference", "--by-op"));
    cr_assert_not_null(strstr(p.out, "\nop\tDet\t1\t0\t0\nop\tRelu\t2\t1\t0\n3 passed, 1 failed, 0 skipped\n"), "%s",
                       p.out);
    p = verify(ARGS("--backend", "reference"));
    cr_assert_null(strstr(p.out, "\nop\t"), "%s", p.out);
}

Test(verify_options, time_adds_a_field)
{
    cases();
    struct printed p = verify(ARGS("--backend", "reference", "--time"));
    char *end = NULL;
    cr_assert_gt(strtod(field(&p, "node/test_relu", 6), &end), 0.0, "%s", p.out);
    cr_assert_eq(*end, '\0');
}

/* Attributes of an element that stands at `at`. */
static int attribute(const char *at, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, " %s=\"", name);
    const char *found = strstr(at, text);
    cr_assert_not_null(found, "no %s in %s", name, at);
    return atoi(found + strlen(text));
}

Test(verify_options, junit_is_well_formed)
{
    cases();
    onnx_case("a&b<c>\"d", &relu);
    struct printed p = verify(ARGS("--backend", "reference", "--junit", path_of("report.xml")));
    cr_assert_eq(p.status, 1);
    size_t size = 0;
    char *xml = file_read(path_of("report.xml"), &size);
    cr_assert_eq(strncmp(xml, "<?xml version=\"1.0\"", 19), 0, "%s", xml);
    cr_assert_eq(attribute(xml, "tests"), 5);
    cr_assert_eq(attribute(xml, "failures"), 1);
    cr_assert_eq(attribute(xml, "skipped"), 0);
    cr_assert_not_null(strstr(xml, "name=\"a&amp;b&lt;c&gt;&quot;d\""), "%s", xml);
    /* Every bracket opens or closes an element: an own small check, xmllint is no package we need. */
    int depth = 0, elements = 0;
    for (const char *at = strchr(xml + 2, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *close = strchr(at, '>');
        cr_assert_not_null(close);
        cr_assert_eq(strcspn(at + 1, "<>"), (size_t)(close - at - 1), "a bracket inside a tag: %.80s", at);
        depth += at[1] == '/' ? -1 : close[-1] == '/' ? 0 : 1;
        elements += at[1] != '/';
        cr_assert_geq(depth, 0);
    }
    cr_assert_eq(depth, 0, "%s", xml);
    cr_assert_eq(elements, 1 + 5 + 1);
    free(xml);
    p = verify(ARGS("--junit", "/no/such/folder/report.xml"));
    cr_assert_eq(p.status, 2);
}

Test(verify_options, json_is_one_object_with_stable_keys)
{
    cases();
    struct printed p = verify(ARGS("--backend", "reference", "--json", "--by-op", "--time", "--jobs", "2"));
    cr_assert_eq(p.status, 1);
    cJSON *json = json_of(&p);
    expect_keys(json, ARGS("cases", "passed", "failed", "skipped", "by_op"));
    const cJSON *list = cJSON_GetObjectItem(json, "cases");
    cr_assert_eq(cJSON_GetArraySize(list), 4);
    expect_keys(cJSON_GetArrayItem(list, 0), ARGS("result", "name", "backend", "max_abs", "max_rel", "reason", "ms"));
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 2), "result")), "fail");
    const cJSON *by_op = cJSON_GetObjectItem(json, "by_op");
    expect_keys(cJSON_GetArrayItem(by_op, 0), ARGS("op", "pass", "fail", "skip"));
    cJSON_Delete(json);
}

Test(verify_options, placement_can_be_chosen)
{
    onnx_case("det", &det);
    struct printed p = verify(ARGS("--backend", "xnnpack", "--placement", "fallback"));
    if (p.status == 3) {
        cr_skip_test("this build has no xnnpack");
    }
    cr_assert_str_eq(last_line(&p), "1 passed, 0 failed, 0 skipped", "%s%s", p.out, p.err);
    p = verify(ARGS("--placement", "strict")); /* auto chooses xnnpack, strict keeps it there */
    cr_assert_str_eq(last_line(&p), "0 passed, 0 failed, 1 skipped", "%s", p.out);
    p = verify(ARGS("--filter", "det"));
    cr_assert_str_eq(last_line(&p), "1 passed, 0 failed, 0 skipped", "%s", p.out);
}

Test(verify_options, exit_codes_tell_usage_and_absence_apart)
{
    cases();
    cr_assert_eq(engine(ARGS("verify")).status, 2);
    cr_assert_eq(engine(ARGS("verify", "/no/such/path")).status, 2);
    cr_assert_eq(engine(ARGS("verify", path_of("node/test_det/model.onnx"))).status, 2); /* no case by itself */
    cr_assert_eq(verify(ARGS("--no-such-option")).status, 2);
    cr_assert_eq(verify(ARGS("--jobs", "0")).status, 2);
    cr_assert_eq(verify(ARGS("--backend", "quantum")).status, 3);
    cr_assert_eq(verify(ARGS("--backend", "quantum", "--jobs", "3")).status, 3);
    cr_assert_eq(verify(ARGS("--backend", "reference", "--precision", "bf16")).status, 3);
    cr_assert_eq(verify(ARGS("--backend", "reference", "--filter", "nothing")).status, 0);
    cr_assert_eq(verify(ARGS("--help")).status, 0);
}
