/* config_sequence.c - sequence_batching: the state that a model keeps between jobs. */
#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_US_DEFAULT   10000000u
#define IDLE_US_MAX       86400000000u
#define SEQUENCES_DEFAULT 256u
#define SEQUENCES_MAX     65536u
#define STATE_FILE_MAX    (64u * 1024u * 1024u)

void config_states_free(struct config_sequence *sequence)
{
    for (size_t i = 0; i < sequence->states_count; i++)
        free(sequence->states[i].initial);
    free(sequence->states);
    *sequence = (struct config_sequence){.present = false};
}

/* ---- state[].initial_state[] --------------------------------------------------------------------------------------------------------- */

static enum pen_status read_zero(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    bool zero = false;
    (void)target; /* the default */
    enum pen_status status = json_bool(value, path, &zero, reterr);
    return status == PEN_OK && !zero ? pen_error_set(reterr, PEN_ERR_INVALID, "%s must be true or left out", path)
                                     : status;
}

static enum pen_status read_file(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_state *state = target;
    enum pen_status status = config_copy_text(value, path, state->file, reterr);
    if (status == PEN_OK && strchr(state->file, '/'))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a file beside config.json, without a '/'", path);
    return status;
}

static enum pen_status read_initial_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    const char *text = NULL;
    (void)target; /* for people */
    return json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
}

static enum pen_status read_type(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_read_dtype(value, path, &((struct config_state *)target)->tensor.dtype, reterr);
}

static enum pen_status read_dims(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_state *state = target;
    state->dims_given = true;
    return config_read_dims(value, path, true, &state->tensor, reterr);
}

static const struct json_field initial_fields[] = {{"name", read_initial_name}, {"zero_data", read_zero},
                                                   {"data_file", read_file},    {"data_type", read_type},
                                                   {"dims", read_dims},         {NULL, NULL}};

static enum pen_status read_initial(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    size_t count = 0;
    enum pen_status status = json_array(value, path, 1, &count, reterr);
    return status == PEN_OK && count == 1 ? json_object(value->child, path, initial_fields, target, reterr) : status;
}

/* ---- state[] ------------------------------------------------------------------------------------------------------------------------- */

static enum pen_status read_input_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_copy_text(value, path, ((struct config_state *)target)->input, reterr);
}

static enum pen_status read_output_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_copy_text(value, path, ((struct config_state *)target)->output, reterr);
}

static const struct json_field state_fields[] = {{"input_name", read_input_name}, {"output_name", read_output_name},
                                                 {"data_type", read_type},        {"dims", read_dims},
                                                 {"initial_state", read_initial}, {NULL, NULL}};

static enum pen_status state_check(const struct config_sequence *sequence, size_t index, const char *path,
                                   struct pen_error *reterr)
{
    const struct config_state *state = &sequence->states[index];
    if (!state->input[0] || !state->output[0])
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s[%zu] needs input_name and output_name", path, index);
    for (size_t i = 0; i < index; i++)
        if (strcmp(sequence->states[i].input, state->input) == 0 ||
            strcmp(sequence->states[i].output, state->output) == 0)
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s[%zu]: '%.64s' or '%.64s' is a state already", path, index,
                                 state->input, state->output);
    return PEN_OK;
}

static enum pen_status read_states(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_sequence *sequence = target;
    size_t count = 0;
    enum pen_status status = json_array(value, path, CONFIG_STATES_MAX, &count, reterr);
    if (status != PEN_OK)
        return status;
    sequence->states = calloc(CONFIG_STATES_MAX, sizeof *sequence->states);
    if (!sequence->states)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item && status == PEN_OK; item = item->next) {
        size_t index = sequence->states_count++;
        status = json_object(item, path, state_fields, &sequence->states[index], reterr);
        if (status == PEN_OK)
            status = state_check(sequence, index, path, reterr);
    }
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

static enum pen_status read_idle(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 1000, IDLE_US_MAX, &((struct config_sequence *)target)->idle_us, reterr);
}

static enum pen_status read_candidates(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, SEQUENCES_MAX, &((struct config_sequence *)target)->max_sequences, reterr);
}

static const struct json_field oldest_fields[] = {{"max_candidate_sequences", read_candidates}, {NULL, NULL}};

static enum pen_status read_oldest(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, oldest_fields, target, reterr);
}

static const struct json_field sequence_fields[] = {
    {"max_sequence_idle_microseconds", read_idle}, {"oldest", read_oldest}, {"state", read_states}, {NULL, NULL}};

enum pen_status config_read_sequence(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_sequence *sequence = &((struct config *)target)->sequence;
    *sequence =
        (struct config_sequence){.present = true, .idle_us = IDLE_US_DEFAULT, .max_sequences = SEQUENCES_DEFAULT};
    return json_object(value, path, sequence_fields, sequence, reterr);
}

enum pen_status config_check_sequence(const struct config *config, struct pen_error *reterr)
{
    if (!config->sequence.present)
        return PEN_OK;
    if (config->plan)
        return pen_error_set(reterr, PEN_ERR_INVALID, "an ensemble keeps no state: sequence_batching is a model's");
    if (config->sequence.states_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "sequence_batching needs at least one state");
    return PEN_OK;
}

enum pen_status config_states_load(const struct config_place *place, struct config_sequence *sequence,
                                   struct pen_error *reterr)
{
    for (size_t i = 0; i < sequence->states_count; i++) {
        struct config_state *state = &sequence->states[i];
        if (!state->file[0])
            continue;
        enum pen_status status =
            config_file_read(place, state->file, STATE_FILE_MAX, &state->initial, &state->initial_bytes, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}
