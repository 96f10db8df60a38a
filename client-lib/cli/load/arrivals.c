#include "arrivals.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define LINE_BYTES 2048u

static enum pen_status refuse(const struct arrivals_reader *reader, const char *why, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%s:%" PRIu64 ": %s; `penstock load --record FILE` writes such recordings.", reader->file,
                         reader->line, why);
}

/* A whole number of 0..most; *ret_value stays as it is when the key is missing. */
static bool number_take(const cJSON *json, const char *key, double most, double *ret_value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!item) {
        return true;
    }
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0 && item->valuedouble <= most) ||
        item->valuedouble != floor(item->valuedouble)) {
        return false;
    }
    *ret_value = item->valuedouble;
    return true;
}

/* The next line that is not empty, parsed; NULL: the end, or *ret_status says what is wrong. */
static cJSON *line_take(struct arrivals_reader *reader, enum pen_status *ret_status, struct pen_error *reterr)
{
    char line[LINE_BYTES];
    *ret_status = PEN_OK;
    while (fgets(line, sizeof line, reader->in)) {
        reader->line++;
        size_t bytes = strlen(line);
        bool whole = bytes && (line[bytes - 1] == '\n' || feof(reader->in));
        if (line[strspn(line, " \t\r\n")] == '\0') {
            continue;
        }
        cJSON *json = whole ? cJSON_Parse(line) : NULL;
        if (!cJSON_IsObject(json)) {
            cJSON_Delete(json);
            *ret_status = refuse(reader, "the line is no JSON object of at most 2 KiB", reterr);
            return NULL;
        }
        return json;
    }
    if (ferror(reader->in)) {
        *ret_status = pen_error_set(reterr, PEN_ERR_IO, "%s: cannot read it: %s.", reader->file, strerror(errno));
    }
    return NULL;
}

enum pen_status arrivals_open(const char *file, struct arrivals_reader *ret_reader, struct pen_error *reterr)
{
    struct arrivals_reader reader = {.file = file, .in = fopen(file, "r")};
    enum pen_status status;
    double format = 0.0;
    if (!reader.in) {
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "%s: cannot read it: %s.", file,
                             strerror(errno));
    }
    cJSON *json = line_take(&reader, &status, reterr);
    bool good = json && number_take(json, "penstock_arrivals", 1e6, &format) && format == (double)ARRIVALS_FORMAT;
    cJSON_Delete(json);
    if (status == PEN_OK && !good) {
        status = refuse(&reader, "a recording begins with {\"penstock_arrivals\": 1}", reterr);
    }
    if (status != PEN_OK) {
        fclose(reader.in);
        return status;
    }
    *ret_reader = reader;
    return PEN_OK;
}

static const char *fill(struct arrivals_reader *reader, const cJSON *json, struct arrival *ret_arrival)
{
    double at = -1.0, rows = 1.0, bytes = 0.0, deadline = 0.0, priority = 0.0;
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model"));
    if (!model || !*model || strlen(model) >= sizeof ret_arrival->model) {
        return "\"model\" must be a name of at most 255 bytes";
    }
    if (!number_take(json, "at_us", 1e15, &at) || at < (double)reader->last_us) {
        return "\"at_us\" must be a whole number that does not fall from line to line";
    }
    if (!number_take(json, "rows", 1e6, &rows) || !number_take(json, "bytes", 1e12, &bytes) ||
        !number_take(json, "deadline_us", 1e15, &deadline) || !number_take(json, "priority", 255.0, &priority)) {
        return "\"rows\", \"bytes\", \"deadline_us\" and \"priority\" must be whole numbers that are not negative";
    }
    *ret_arrival = (struct arrival){.at_us = (uint64_t)at,
                                    .rows = rows > 0.0 ? (uint32_t)rows : 1u,
                                    .bytes = (uint64_t)bytes,
                                    .deadline_us = (uint64_t)deadline,
                                    .priority = (uint8_t)priority};
    snprintf(ret_arrival->model, sizeof ret_arrival->model, "%s", model);
    reader->last_us = ret_arrival->at_us;
    return NULL;
}

enum pen_status arrivals_next(struct arrivals_reader *reader, struct arrival *ret_arrival, bool *ret_end,
                              struct pen_error *reterr)
{
    enum pen_status status;
    cJSON *json = line_take(reader, &status, reterr);
    *ret_end = !json;
    if (!json) {
        return status;
    }
    const char *why = fill(reader, json, ret_arrival);
    cJSON_Delete(json);
    return why ? refuse(reader, why, reterr) : PEN_OK;
}

void arrivals_close(struct arrivals_reader *reader)
{
    fclose(reader->in);
}

/* ---- writing ---- */

static enum pen_status write_failed(const char *file, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write the recording: %s.", file, strerror(errno));
}

static enum pen_status file_begin(struct arrivals_writer *writer, uint64_t unix_us, struct pen_error *reterr)
{
    writer->out = fopen(writer->file, "w");
    int bytes = writer->out ? fprintf(writer->out, "{\"penstock_arrivals\":%d,\"began_unix_us\":%" PRIu64 "}\n",
                                      ARRIVALS_FORMAT, unix_us)
                            : -1;
    if (bytes < 0) {
        return write_failed(writer->file, reterr);
    }
    writer->began_unix_us = unix_us;
    writer->last_us = 0;
    writer->bytes = (uint64_t)bytes;
    return PEN_OK;
}

enum pen_status arrivals_create(const char *file, uint64_t bytes_max, uint64_t unix_us,
                                struct arrivals_writer *ret_writer, struct pen_error *reterr)
{
    *ret_writer = (struct arrivals_writer){.file = file, .bytes_max = bytes_max};
    return file_begin(ret_writer, unix_us, reterr);
}

enum pen_status arrivals_finish(struct arrivals_writer *writer, struct pen_error *reterr)
{
    bool good = writer->out && !ferror(writer->out);
    good = writer->out && fclose(writer->out) == 0 && good;
    writer->out = NULL;
    return good ? PEN_OK : write_failed(writer->file, reterr);
}

static enum pen_status turn(struct arrivals_writer *writer, uint64_t unix_us, struct pen_error *reterr)
{
    size_t bytes = strlen(writer->file) + 3;
    char *older = malloc(bytes);
    enum pen_status status = arrivals_finish(writer, reterr);
    if (!older) {
        return status == PEN_OK ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a file's name.") : status;
    }
    snprintf(older, bytes, "%s.1", writer->file);
    if (status == PEN_OK && rename(writer->file, older) != 0) {
        status = write_failed(older, reterr);
    }
    free(older);
    writer->turned++;
    return status == PEN_OK ? file_begin(writer, unix_us, reterr) : status;
}

/* The model's name as JSON text, quotes included; NULL without memory. */
static char *quoted(const char *text)
{
    cJSON *item = cJSON_CreateString(text);
    char *printed = item ? cJSON_PrintUnformatted(item) : NULL;
    cJSON_Delete(item);
    return printed;
}

enum pen_status arrivals_write(struct arrivals_writer *writer, const struct arrival *a, struct pen_error *reterr)
{
    char *model = quoted(a->model);
    enum pen_status status = model ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a line.");
    if (status == PEN_OK && writer->bytes >= writer->bytes_max) {
        status = turn(writer, a->at_us, reterr);
    }
    if (status == PEN_OK) {
        uint64_t at_us = a->at_us > writer->began_unix_us ? a->at_us - writer->began_unix_us : 0;
        at_us = at_us > writer->last_us ? at_us : writer->last_us;
        writer->last_us = at_us;
        int bytes = fprintf(writer->out,
                            "{\"at_us\":%" PRIu64 ",\"model\":%s,\"priority\":%u,\"rows\":%" PRIu32
                            ",\"bytes\":%" PRIu64 ",\"deadline_us\":%" PRIu64 "}\n",
                            at_us, model, a->priority, a->rows, a->bytes, a->deadline_us);
        writer->bytes += bytes > 0 ? (uint64_t)bytes : 0;
        writer->written++;
        status = bytes > 0 ? PEN_OK : write_failed(writer->file, reterr);
    }
    cJSON_free(model);
    return status;
}
