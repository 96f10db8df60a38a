/* config.json of ensembles: declared tensors, maps and steps, and the sentence for each thing that cannot be. */
#include "config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config config;
static struct pen_error error;

static enum pen_status parse(const char *text)
{
    config_init(&config);
    error = (struct pen_error){0};
    return config_parse(text, strlen(text), &config, &error);
}

static void refuses(const char *text, const char *part)
{
    enum pen_status got = parse(text);
    cr_assert(got == PEN_ERR_INVALID, "%s: status %s (%s)", text, pen_status_name(got), error.text);
    cr_assert(strstr(error.text, part), "%s: '%s' does not contain '%s'", text, error.text, part);
    config_fini(&config);
}

static void too_many(const char *text, const char *part)
{
    cr_assert(parse(text) == PEN_ERR_TOO_LARGE, "%s", error.text);
    cr_assert(strstr(error.text, part), "%s: '%s' does not contain '%s'", text, error.text, part);
    config_fini(&config);
}

#define TENSOR(name, type, dims) "{\"name\":\"" name "\",\"data_type\":\"" type "\",\"dims\":" dims "}"
#define STEP(more)               "{\"model_name\":\"m\"" more "}"
#define MAPS                     ",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"z\"}"
#define WHOLE(head, in, out, steps)                                                                                    \
    "{" head "\"input\":[" in "],\"output\":[" out "],\"ensemble_scheduling\":{\"step\":[" steps "]}}"
#define A TENSOR("a", "TYPE_FP32", "[4]")
#define Z TENSOR("z", "TYPE_FP32", "[4]")

Test(config_ensemble, declared_tensors_have_all_types_and_dims)
{
    cr_assert(parse(WHOLE("", TENSOR("a", "TYPE_STRING", "[-1,2147483647,1]") "," TENSOR("b", "TYPE_UINT8", "[]"), Z,
                          STEP(",\"input_map\":{\"x\":\"a\",\"w\":\"b\"},\"output_map\":{\"y\":\"z\"}"))) == PEN_OK,
              "%s", error.text);
    const struct ensemble_plan *plan = config.plan;
    cr_assert(plan->inputs_count == 2 && plan->inputs[0].dtype == PEN_DTYPE_STRING && plan->inputs[0].rank == 3);
    cr_assert(plan->inputs[0].dims[0] == -1 && plan->inputs[0].dims[1] == 2147483647 && plan->inputs[0].dims[2] == 1);
    cr_assert(plan->inputs[1].dtype == PEN_DTYPE_U8 && plan->inputs[1].rank == 0);
    cr_assert(ensemble_plan_input(plan, plan->steps[0].inputs[1].tensor) == 1);
    cr_assert(ensemble_plan_output(plan, plan->steps[0].inputs[1].tensor) == -1);
    cr_assert(ensemble_plan_output(plan, plan->steps[0].outputs[0].tensor) == 0);
    config_fini(&config);
}

Test(config_ensemble, declarations_that_are_none_are_refused)
{
    refuses(WHOLE("", TENSOR("a", "TYPE_FLOATS", "[4]"), Z, STEP(MAPS)), "must be a type such as TYPE_FP32");
    refuses(WHOLE("", TENSOR("a", "TYPE_FP32", "[0]"), Z, STEP(MAPS)), "dims");
    refuses(WHOLE("", TENSOR("a", "TYPE_FP32", "[-2]"), Z, STEP(MAPS)), "dims");
    refuses(WHOLE("", TENSOR("a", "TYPE_FP32", "[2147483648]"), Z, STEP(MAPS)), "dims");
    cr_assert(parse(WHOLE("", TENSOR("a", "TYPE_FP32", "[1,2,3,4,5,6,7]"), Z, STEP(MAPS))) == PEN_OK, "%s", error.text);
    cr_assert(config.plan->inputs[0].rank == 7 && config.plan->inputs[0].dims[6] == 7);
    config_fini(&config);
    too_many(WHOLE("", TENSOR("a", "TYPE_FP32", "[1,1,1,1,1,1,1,1]"), Z, STEP(MAPS)), "input.dims has 8 entries");
    refuses(WHOLE("", A "," A, Z, STEP(MAPS)), "input names 'a' twice");
    refuses(WHOLE("", A, Z "," Z, STEP(MAPS)), "output names 'z' twice");
    refuses(WHOLE("", "{\"name\":\"a\",\"data_type\":\"TYPE_FP32\"}", Z, STEP(MAPS)), "input[0] needs name, data_type");
    refuses(WHOLE("", A ",{\"data_type\":\"TYPE_FP32\",\"dims\":[1]}", Z, STEP(MAPS)), "input[1] needs name");
    refuses(WHOLE("", "{\"name\":7,\"data_type\":\"TYPE_FP32\",\"dims\":[1]}", Z, STEP(MAPS)), "name must be a text");
    refuses("{\"input\":7}", "input must be");
    refuses("{\"output\":[7]}", "output");
}

Test(config_ensemble, a_format_only_describes)
{
    cr_assert(parse(WHOLE("", "{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4],\"format\":\"FORMAT_NHWC\"}", Z,
                          STEP(MAPS))) == PEN_OK,
              "%s", error.text);
    config_fini(&config);
    refuses(WHOLE("", "{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4],\"format\":3}", Z, STEP(MAPS)),
            "format");
}

Test(config_ensemble, labels_of_an_output_are_a_file_beside_the_config)
{
#define LABELLED(name, file)                                                                                           \
    "{\"name\":\"" name "\",\"data_type\":\"TYPE_FP32\",\"dims\":[4],\"label_filename\":\"" file "\"}"
    cr_assert(parse("{\"output\":[" LABELLED("z", "names.txt") "]}") == PEN_OK, "%s", error.text);
    cr_assert_str_eq(config.labels_file, "names.txt");
    cr_assert(config.declared && !config.plan && config.declared->outputs_count == 1, "of a model, not an ensemble");
    config_fini(&config);
    refuses("{\"output\":[" LABELLED("z", "../names.txt") "]}", "must be a file beside the config");
    cr_assert(parse("{\"output\":[" LABELLED("z", "a") "," LABELLED("y", "b") "]}") == PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "only one output can have labels"), "%s", error.text);
    config_fini(&config);
}

Test(config_ensemble, versions_of_steps_are_the_latest_or_a_number)
{
    cr_assert(parse(WHOLE("", A, Z, STEP(",\"model_version\":4294967295" MAPS))) == PEN_OK, "%s", error.text);
    cr_assert(config.plan->steps[0].version == 4294967295u);
    config_fini(&config);
    cr_assert(parse(WHOLE("", A, Z, STEP(",\"model_version\":-1" MAPS))) == PEN_OK, "%s", error.text);
    cr_assert(config.plan->steps[0].version == 0);
    config_fini(&config);
    static const char *const wrong[] = {"0", "-2", "4294967296", "1.5", "\"1\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        snprintf(text, sizeof text, WHOLE("", A, Z, STEP(",\"model_version\":%s" MAPS)), wrong[i]);
        refuses(text, "model_version must be -1 (the latest) or a version from 1");
    }
}

Test(config_ensemble, maps_are_checked)
{
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":[1],\"output_map\":{\"y\":\"z\"}")), "input_map must be an object");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"x\":\"a\"},\"output_map\":{}")), "output_map must name 1 to 64");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"x\":\"a\",\"x\":\"a\"},\"output_map\":{\"y\":\"z\"}")),
            "input_map.x is given twice");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"\":\"a\"},\"output_map\":{\"y\":\"z\"}")),
            "its name is not of 1 to");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"x\":7},\"output_map\":{\"y\":\"z\"}")),
            "input_map.x must be a text");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"x\":\"a\"}")),
            "step[0] needs model_name, input_map and output_map");
    refuses(WHOLE("", A, Z,
                  "{"
                  "\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"z\"}}"),
            "needs model_name");
    refuses(WHOLE("", A, Z, "{\"model_name\":5" MAPS "}"), "model_name must be a text");
}

/* A map of `count` ports to as many tensors. */
static void map_of(char *text, size_t room, size_t count)
{
    size_t used = (size_t)snprintf(text, room,
                                   "{\"input\":[%s],\"output\":[%s],\"ensemble_scheduling\":{\"step\":["
                                   "{\"model_name\":\"m\",\"output_map\":{\"y\":\"z\"},\"input_map\":{",
                                   A, Z);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, room - used, "%s\"p%zu\":\"a\"", i ? "," : "", i);
    snprintf(text + used, room - used, "}}]}}");
}

Test(config_ensemble, there_is_a_most_of_each)
{
    static char text[65536];
    map_of(text, sizeof text, ENSEMBLE_PLAN_LINKS_MAX);
    cr_assert(parse(text) == PEN_OK, "%s", error.text);
    cr_assert(config.plan->steps[0].inputs_count == ENSEMBLE_PLAN_LINKS_MAX);
    config_fini(&config);
    map_of(text, sizeof text, ENSEMBLE_PLAN_LINKS_MAX + 1);
    refuses(text, "must name 1 to 64 tensors");
    size_t used = (size_t)snprintf(text, sizeof text, "{\"ensemble_scheduling\":{\"step\":[");
    for (size_t i = 0; i <= ENSEMBLE_PLAN_STEPS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s{}", i ? "," : "");
    snprintf(text + used, sizeof text - used, "]}}");
    too_many(text, "ensemble_scheduling.step has 17 entries, at most 16");
}

Test(config_ensemble, what_belongs_to_the_steps_is_refused)
{
    refuses(WHOLE("\"platform\":\"onnx\",", A, Z, STEP(MAPS)), "needs platform ensemble, not onnx");
    refuses(WHOLE("\"max_batch_size\":1,\"model_warmup\":[{\"batch_size\":1}],", A, Z, STEP(MAPS)),
            "an ensemble has no model_warmup");
    refuses(WHOLE("\"instance_group\":[{\"count\":1}],", A, Z, STEP(MAPS)), "an ensemble has no instance_group");
    refuses("{\"output\":{\"labels\":[\"a\"]},\"input\":[" A "],\"ensemble_scheduling\":{\"step\":[" STEP(MAPS) "]}}",
            "an ensemble has no output.labels");
    refuses("{\"ensemble_scheduling\":{\"step\":[" STEP(MAPS) "]}}", "lists its input and output tensors");
    refuses("{\"input\":[" A "],\"ensemble_scheduling\":{\"step\":[" STEP(MAPS) "]}}", "lists its input and output");
    refuses("{\"platform\":\"ensemble\"}", "platform ensemble needs ensemble_scheduling");
    refuses("{\"platform\":\"ensemble\",\"input\":[" A "]}", "needs at least one step");
}

Test(config_ensemble, tensors_have_one_source_and_a_use)
{
    refuses(WHOLE("", A "," TENSOR("b", "TYPE_FP32", "[1]"), Z, STEP(MAPS)), "input 'b' is taken by no step");
    refuses(WHOLE("", A, Z "," TENSOR("a", "TYPE_FP32", "[4]"), STEP(MAPS)), "output 'a' is given by no step");
    refuses(WHOLE("", A, Z, STEP(MAPS) "," STEP(",\"input_map\":{\"x\":\"z\"},\"output_map\":{\"y\":\"a\"}")),
            "step 2 (model 'm') gives 'a', which the caller gives already");
    refuses(WHOLE("", A, Z, STEP(",\"input_map\":{\"x\":\"q\"},\"output_map\":{\"y\":\"z\"}")),
            "step 1 (model 'm') takes 'q', which no step gives");
}

#define CROPPED(crop)                                                                                                  \
    WHOLE("\"platform\":\"ensemble\",\"max_batch_size\":0,", TENSOR("a", "TYPE_STRING", "[1]"), Z,                     \
          "{\"model_name\":\"f\",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"b\":\"b\",\"c\":\"c\",\"p\":\"p\"}}"    \
          "," STEP(MAPS ",\"crop\":" crop))

/* The tensors that say where to cut are inputs of the step without a port: they come after the model's own. */
Test(config_ensemble, crop_names_tensors_of_an_earlier_step)
{
    cr_assert(parse(CROPPED("{\"boxes\":\"b\",\"count\":\"c\",\"points\":\"p\",\"level\":[2,3],\"scale\":1.5}")) ==
                  PEN_OK,
              "%s", error.text);
    const struct ensemble_plan_step *step = &config.plan->steps[1];
    cr_expect(step->crop.present && step->crop.turned && step->crop.first == 1 && step->inputs_count == 4);
    cr_expect(step->crop.from == 2 && step->crop.to == 3 && step->crop.scale > 1.49 && step->crop.scale < 1.51);
    cr_expect_str_eq(config.plan->tensors[step->inputs[2].tensor], "c");
    cr_expect_str_eq(step->inputs[2].port, "crop.count");
    config_fini(&config);
    refuses(CROPPED("{\"boxes\":\"b\"}"), "crop needs boxes and count");
    refuses(CROPPED("{\"boxes\":\"b\",\"count\":\"c\",\"level\":[1]}"), "must be two points");
    refuses(CROPPED("{\"boxes\":\"b\",\"count\":\"c\",\"scale\":0}"), "a number above 0");
    refuses(CROPPED("{\"boxes\":\"b\",\"count\":\"c\",\"box\":1}"), "did you mean 'boxes'?");
    refuses(CROPPED("7"), "must be an object");
}

/* Four steps that take a; the last one gives `last` tensors, z among them, and the others as many as a map has. */
static const char *named(unsigned last)
{
    static char text[16384];
    size_t used = 0;
#define ADD(...) used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__)
    ADD("{\"input\":[" A "],\"output\":[" Z "],\"ensemble_scheduling\":{\"step\":[");
    for (unsigned i = 0; i < 4; i++) {
        unsigned count = i == 3 ? last : ENSEMBLE_PLAN_LINKS_MAX;
        ADD("%s{\"model_name\":\"m\",\"input_map\":{\"x\":\"a\"},\"output_map\":{", i ? "," : "");
        for (unsigned j = 0; j + 1 < count; j++)
            ADD("\"%u\":\"%u.%u\",", j, i, j);
        if (i == 3)
            ADD("\"y\":\"z\"}}");
        else
            ADD("\"y\":\"%u\"}}", i);
    }
    ADD("]}}");
    return text;
}

Test(config_ensemble, as_many_tensors_are_named_as_there_is_room_for)
{
    unsigned last = ENSEMBLE_PLAN_TENSORS_MAX - 1 - 3 * ENSEMBLE_PLAN_LINKS_MAX;
    cr_assert_eq(parse(named(last)), PEN_OK, "%s", error.text);
    cr_expect_eq(config.plan->tensors_count, ENSEMBLE_PLAN_TENSORS_MAX);
    config_fini(&config);
    too_many(named(last + 1), "an ensemble may name at most 256 tensors");
}
