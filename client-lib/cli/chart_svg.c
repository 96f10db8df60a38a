/* chart_svg.c - a chart as SVG: no scripts, no fonts of its own, colours that differ in brightness, too. */
#include <errno.h>
#include <string.h>

#include "chart_frame.h"

#define WIDTH  720.0
#define HEIGHT 420.0
#define LEFT   70.0
#define RIGHT  20.0
#define TOP    40.0
#define BOTTOM 60.0

static const char *const colours[CHART_SERIES_MAX] = {"#0b6e4f", "#c1440e", "#3a5fcd", "#7a4fa3"};

static double across(const struct chart_frame *frame, double x)
{
    return LEFT + chart_place(&frame->x, x) * (WIDTH - LEFT - RIGHT);
}

static double down(const struct chart_frame *frame, double y)
{
    return HEIGHT - BOTTOM - chart_place(&frame->y, y) * (HEIGHT - TOP - BOTTOM);
}

/* Text of a model's name may hold anything. */
static void escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (entity) {
            fputs(entity, out);
        } else if ((unsigned char)*text >= 0x20) {
            fputc(*text, out);
        }
    }
}

static void text_at(FILE *out, double x, double y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    escaped(out, text);
    fputs("</text>\n", out);
}

static void number_at(FILE *out, double x, double y, const char *anchor, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    text_at(out, x, y, anchor, text);
}

static void line(FILE *out, double x1, double y1, double x2, double y2, const char *style)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style);
}

static void axes(const struct chart *chart, const struct chart_frame *frame, FILE *out)
{
    double floor = HEIGHT - BOTTOM;
    for (unsigned t = 0; t < frame->x.ticks_count; t++) {
        double x = across(frame, frame->x.ticks[t]);
        line(out, x, TOP, x, floor, "stroke=\"#ddd\"");
        number_at(out, x, floor + 18.0, "middle", frame->x.ticks[t]);
    }
    for (unsigned t = 0; t < frame->y.ticks_count; t++) {
        double y = down(frame, frame->y.ticks[t]);
        line(out, LEFT, y, WIDTH - RIGHT, y, "stroke=\"#ddd\"");
        number_at(out, LEFT - 6.0, y + 4.0, "end", frame->y.ticks[t]);
    }
    line(out, LEFT, floor, WIDTH - RIGHT, floor, "stroke=\"#333\"");
    line(out, LEFT, TOP, LEFT, floor, "stroke=\"#333\"");
    text_at(out, WIDTH / 2.0, HEIGHT - 24.0, "middle", chart->x_label);
    text_at(out, 8.0, TOP - 8.0, "start", chart->y_label);
}

static void series_draw(const struct chart_series *series, const struct chart_frame *frame, const char *colour,
                        FILE *out)
{
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (size_t i = 0; i < series->count; i++) {
        if (chart_shows(series->points[i])) {
            fprintf(out, "%.1f,%.1f ", across(frame, series->points[i].x), down(frame, series->points[i].y));
        }
    }
    fputs("\"/>\n", out);
    for (size_t i = 0; i < series->count; i++) {
        struct chart_point p = series->points[i];
        if (chart_shows(p)) {
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%.5g, %.5g</title></circle>\n",
                    across(frame, p.x), down(frame, p.y), colour, p.x, p.y);
        }
    }
}

static void legend(const struct chart *chart, FILE *out)
{
    double x = LEFT + 10.0;
    for (size_t s = 0; s < chart->series_count; s++) {
        fprintf(out, "<g fill=\"%s\">", colours[s]);
        text_at(out, x, HEIGHT - 6.0, "start", chart->series[s].name);
        fputs("</g>\n", out);
        x += 16.0 + 8.0 * (double)strlen(chart->series[s].name);
    }
    if (chart->limit > 0.0) {
        text_at(out, x, HEIGHT - 6.0, "start", chart->limit_name);
    }
}

void chart_svg(const struct chart *chart, FILE *out)
{
    struct chart_frame frame;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT);
    text_at(out, WIDTH / 2.0, 18.0, "middle", chart->title);
    if (chart_frame_make(chart, &frame)) {
        axes(chart, &frame, out);
        if (chart->limit > 0.0) {
            double y = down(&frame, chart->limit);
            line(out, LEFT, y, WIDTH - RIGHT, y, "stroke=\"#b00\" stroke-dasharray=\"6 4\"");
        }
        for (size_t s = 0; s < chart->series_count; s++) {
            series_draw(&chart->series[s], &frame, colours[s], out);
        }
        legend(chart, out);
    }
    fputs("</svg>\n", out);
}

enum pen_status chart_save(const struct chart *chart, const char *file, struct pen_error *reterr)
{
    FILE *out = fopen(file, "w");
    if (out) {
        chart_svg(chart, out);
    }
    bool good = out && !ferror(out);
    good = out && fclose(out) == 0 && good;
    return good ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write the chart: %s.", file, strerror(errno));
}
