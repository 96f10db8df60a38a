#include "control_arrivals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "arrival_log.h"
#include "metrics_writer.h"

static bool number_parse(const char *text, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *ret_number = number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static void write_one(struct writer *writer, const struct arrival_note *note)
{
    writer_format(writer, "[%" PRIu64 ",%u,%u,%" PRIu32 ",%" PRIu64 ",%" PRIu64 "],", note->at_us,
                  (unsigned)note->model, note->priority, note->rows, note->bytes, (uint64_t)note->deadline_us);
}

static void write_all(struct writer *writer, const struct arrival_log *log, uint64_t now_us, uint64_t from)
{
    uint64_t first = arrival_log_first(log), since = from < first ? first : from < log->next ? from : log->next;
    uint64_t end = log->next - since > CONTROL_ARRIVALS_MAX ? since + CONTROL_ARRIVALS_MAX : log->next;
    writer_format(writer, "{\"now_us\":%" PRIu64 ",\"next\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"arrivals\":[", now_us,
                  end, (from < first ? first - from : 0));
    for (uint64_t i = since; i < end; i++)
        write_one(writer, &log->notes[i % ARRIVAL_LOG_COUNT]);
    writer_trim(writer, ',');
    writer_text(writer, "],\"models\":[");
    for (size_t i = 0; i < log->names_count; i++) {
        writer_string(writer, log->names[i]);
        writer_text(writer, ",");
    }
    writer_trim(writer, ',');
    writer_format(writer, "],\"unnamed\":%" PRIu64 "}", log->unnamed);
}

enum pen_status control_arrivals(struct broker *broker, const char *argument, char **ret_text, struct pen_error *reterr)
{
    struct writer writer = {.text = NULL};
    uint64_t from = 0;
    if (*argument && !number_parse(argument, &from))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "arrivals takes the number of the first arrival to tell, or nothing to begin");
    const struct arrival_log *log = arrival_log_ask(broker);
    if (!log)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory to note arrivals");
    write_all(&writer, log, broker->now_us, *argument ? from : log->next);
    if (writer.failed) {
        writer_fini(&writer);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory for the answer");
    }
    *ret_text = writer.text;
    return PEN_OK;
}
