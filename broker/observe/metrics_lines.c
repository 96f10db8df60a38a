#include "metrics_lines.h"

#include <ctype.h>
#include <stdio.h>

void line_family(struct writer *w, const char *name, const char *type, const char *help)
{
    writer_format(w, "# HELP penstock_%s %s\n# TYPE penstock_%s %s\n", name, help, name, type);
}

void line_open(struct writer *w, const char *name, const char *suffix)
{
    writer_text(w, "penstock_");
    writer_text(w, name);
    writer_text(w, suffix);
    writer_text(w, "{");
}

void line_close(struct writer *w)
{
    writer_trim(w, ',');
    writer_text(w, "} ");
}

void line_value(struct writer *w, uint64_t value)
{
    writer_number(w, value);
    writer_text(w, "\n");
}

void line_number(struct writer *w, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    writer_label(w, name, text);
}

void line_single(struct writer *w, const char *name, const char *type, const char *help, uint64_t value)
{
    line_family(w, name, type, help);
    writer_format(w, "penstock_%s ", name);
    line_value(w, value);
}

void line_model(struct writer *w, const char *name, uint64_t version)
{
    writer_label(w, "model", name);
    line_number(w, "version", version);
}

void line_series(struct writer *w, const struct series_tally *series)
{
    line_model(w, series->model->name, series->model->version);
    writer_label(w, "backend", series->backend);
    writer_label(w, "precision", precision_name(series->precision));
}

/* "NOT_FOUND" -> "not_found". */
void line_status(struct writer *w, const char *label, enum pen_status status)
{
    char text[32];
    const char *name = pen_status_name(status);
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof text; i++)
        text[i] = (char)tolower((unsigned char)name[i]);
    text[i] = '\0';
    writer_label(w, label, text);
}
