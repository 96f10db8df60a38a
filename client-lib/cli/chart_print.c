/* chart_print.c - a chart in characters: lines of points between neighbours, a sign at each point that was measured. */
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "chart_frame.h"

#define COLUMNS_MIN 40u
#define COLUMNS_MAX 200u
#define ROWS_MIN    8u
#define ROWS_MAX    60u
#define MARGIN      10u /* left of the axis */

static const char signs[CHART_SERIES_MAX] = {'o', 'x', '+', '#'};

struct sheet {
    const struct chart_frame *frame;
    unsigned columns, rows; /* of the drawing alone */
    char cells[ROWS_MAX][COLUMNS_MAX + 1];
};

unsigned chart_columns(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80u;
}

static unsigned column_of(const struct sheet *sheet, double x)
{
    return (unsigned)lround(chart_place(&sheet->frame->x, x) * (double)(sheet->columns - 1));
}

static unsigned row_of(const struct sheet *sheet, double y)
{
    return sheet->rows - 1 - (unsigned)lround(chart_place(&sheet->frame->y, y) * (double)(sheet->rows - 1));
}

static void dot(struct sheet *sheet, double column, double row, char sign)
{
    char *cell = &sheet->cells[(unsigned)lround(row)][(unsigned)lround(column)];
    *cell = *cell == ' ' || *cell == '-' || sign != '.' ? sign : *cell;
}

static void join(struct sheet *sheet, struct chart_point a, struct chart_point b)
{
    double ca = column_of(sheet, a.x), cb = column_of(sheet, b.x), ra = row_of(sheet, a.y), rb = row_of(sheet, b.y);
    double steps = fmax(fmax(fabs(cb - ca), fabs(rb - ra)), 1.0);
    for (double i = 0.0; i <= steps; i += 1.0) {
        dot(sheet, ca + (cb - ca) * i / steps, ra + (rb - ra) * i / steps, '.');
    }
}

static void draw_series(struct sheet *sheet, const struct chart_series *series, char sign)
{
    for (size_t i = 1; i < series->count; i++) {
        if (chart_shows(series->points[i - 1]) && chart_shows(series->points[i])) {
            join(sheet, series->points[i - 1], series->points[i]);
        }
    }
    for (size_t i = 0; i < series->count; i++) {
        if (chart_shows(series->points[i])) {
            dot(sheet, column_of(sheet, series->points[i].x), row_of(sheet, series->points[i].y), sign);
        }
    }
}

static void print_rows(const struct sheet *sheet, FILE *out)
{
    const struct chart_axis *y = &sheet->frame->y;
    for (unsigned row = 0; row < sheet->rows; row++) {
        char label[32] = "";
        for (unsigned t = 0; t < y->ticks_count; t++) {
            if (row_of(sheet, y->ticks[t]) == row) {
                snprintf(label, sizeof label, "%.4g", y->ticks[t]);
            }
        }
        size_t used = strlen(sheet->cells[row]);
        while (used && sheet->cells[row][used - 1] == ' ') {
            used--;
        }
        fprintf(out, "%*s |%.*s\n", (int)MARGIN - 2, label, (int)used, sheet->cells[row]);
    }
}

static void print_x_axis(const struct sheet *sheet, FILE *out)
{
    const struct chart_axis *x = &sheet->frame->x;
    char line[COLUMNS_MAX + 48];
    memset(line, '-', sheet->columns);
    line[sheet->columns] = '\0';
    fprintf(out, "%*s +%s\n", (int)MARGIN - 2, "", line);
    memset(line, ' ', sizeof line);
    unsigned end = 0;
    for (unsigned t = 0; t < x->ticks_count; t++) {
        char label[32];
        int bytes = snprintf(label, sizeof label, "%.4g", x->ticks[t]);
        unsigned at = column_of(sheet, x->ticks[t]);
        if (bytes > 0 && (t == 0 || at > end + 1)) {
            memcpy(line + at, label, (size_t)bytes);
            end = at + (unsigned)bytes;
        }
    }
    line[end] = '\0';
    fprintf(out, "%*s  %s\n", (int)MARGIN - 2, "", line);
}

static void print_legend(const struct chart *chart, FILE *out)
{
    fprintf(out, "%*s  x: %s; y: %s;", (int)MARGIN - 2, "", chart->x_label, chart->y_label);
    for (size_t s = 0; s < chart->series_count; s++) {
        fprintf(out, " %c %s", signs[s], chart->series[s].name);
    }
    if (chart->limit > 0.0) {
        fprintf(out, " - %s", chart->limit_name);
    }
    fprintf(out, "\n");
}

static unsigned within(unsigned value, unsigned least, unsigned most)
{
    return value < least ? least : value > most ? most : value;
}

void chart_print(const struct chart *chart, FILE *out, unsigned columns, unsigned rows)
{
    struct chart_frame frame;
    struct sheet sheet = {.frame = &frame,
                          .columns = within(columns, COLUMNS_MIN, COLUMNS_MAX) - MARGIN,
                          .rows = within(rows, ROWS_MIN, ROWS_MAX)};
    if (!chart_frame_make(chart, &frame)) {
        return;
    }
    for (unsigned row = 0; row < sheet.rows; row++) {
        memset(sheet.cells[row], ' ', sheet.columns);
    }
    if (chart->limit > 0.0) {
        memset(sheet.cells[row_of(&sheet, chart->limit)], '-', sheet.columns);
    }
    for (size_t s = 0; s < chart->series_count; s++) {
        draw_series(&sheet, &chart->series[s], signs[s]);
    }
    fprintf(out, "%s\n", chart->title);
    print_rows(&sheet, out);
    print_x_axis(&sheet, out);
    print_legend(chart, out);
}
