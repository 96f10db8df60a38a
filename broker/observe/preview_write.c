#include "preview_write.h"

#include <inttypes.h>
#include <stdlib.h>

static void row_write(const struct preview *row, struct writer *w)
{
    char job[JOB_ID_TEXT_BYTES];
    writer_format(w, "{\"id\":%" PRIu64 ",\"model\":", row->serial);
    writer_string(w, row->model);
    writer_format(w, ",\"version\":%" PRIu64 ",\"job\":\"%s\",\"ended_us\":%" PRIu64 ",\"type\":\"%s\",\"bytes\":%zu}",
                  row->version, job_id_text(row->job, job), row->ended_us, row->type, row->picture.bytes);
}

void preview_write(struct previews *previews, struct writer *w)
{
    struct preview *rows = previews ? malloc(PREVIEWS_MAX * sizeof *rows) : NULL;
    size_t count = rows ? previews_list(previews, rows) : 0;
    w->failed |= previews && !rows;
    writer_text(w, "{\"previews\":[");
    for (size_t i = 0; i < count; i++) {
        writer_text(w, i ? "," : "");
        row_write(&rows[i], w);
    }
    writer_text(w, "]}\n");
    free(rows);
}
