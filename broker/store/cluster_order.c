#include "cluster_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"

#define LINE_BYTES (ORDER_FIELD_BYTES + 64u)

struct order_words {
    char model[256], label[CLUSTER_LABEL_BYTES_MAX + 1], check[20];
    unsigned long long version;
    unsigned long share_ppm;
};

/* How many there are. */
static int read_words(const char *text, struct order_words *ret)
{
    *ret = (struct order_words){.version = 0};
    return sscanf(text, "%255s %64s %llu %lu %19s", ret->model, ret->label, &ret->version, &ret->share_ppm, ret->check);
}

static void write_check(const struct order_words *words, char ret_check[20])
{
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "%s %s %llu %lu", words->model, words->label, words->version, words->share_ppm);
    snprintf(ret_check, 20, "%016" PRIx64, frame_name_hash(text));
}

struct order *order_new(const char *text, const char *prefix)
{
    struct order_words words;
    char check[20];
    struct order *order = calloc(1, sizeof *order);
    if (!order || read_words(text, &words) < 3) {
        free(order);
        return NULL;
    }
    write_check(&words, check);
    snprintf(order->field, sizeof order->field, "%s %s", words.model, words.label);
    if (words.version != 0)
        snprintf(order->value, sizeof order->value, "%s%llu %lu %s", prefix, words.version, words.share_ppm, check);
    return order;
}

/* False: the line was set for another field. A line that is no order at all is left to its reader. */
static bool line_clean(char *line)
{
    struct order_words words;
    char check[20], *end;
    if (read_words(line, &words) < 5)
        return true;
    write_check(&words, check);
    if (strcmp(check, words.check) != 0)
        return false;
    end = strrchr(line, ' ');
    *end = '\0';
    return true;
}

uint32_t orders_clean(char *lines)
{
    uint32_t wrong = 0;
    char *to = lines, *rest = lines, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (!*line)
            continue;
        if (!line_clean(line)) {
            wrong++;
            continue;
        }
        size_t length = strlen(line);
        memmove(to, line, length);
        to += length;
        if (rest) /* the line had one */
            *to++ = '\n';
    }
    *to = '\0';
    return wrong;
}
