#include "metrics_writer.h"

#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16384u

void writer_fini(struct writer *writer)
{
    free(writer->text);
    *writer = (struct writer){.text = NULL};
}

static bool reserve(struct writer *writer, size_t bytes)
{
    if (writer->used + bytes < writer->room)
        return true;
    size_t room = writer->room ? writer->room : ROOM_FIRST;
    while (writer->used + bytes >= room)
        room *= 2;
    char *text = writer->failed ? NULL : realloc(writer->text, room);
    if (!text) {
        writer->failed = true;
        return false;
    }
    writer->text = text;
    writer->room = room;
    return true;
}

static void put(struct writer *writer, const char *bytes, size_t count)
{
    if (!reserve(writer, count))
        return;
    memcpy(writer->text + writer->used, bytes, count);
    writer->used += count;
    writer->text[writer->used] = '\0';
}

void writer_text(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

void writer_format(struct writer *writer, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (count > 0)
        put(writer, line, (size_t)count < sizeof line ? (size_t)count : sizeof line - 1);
}

void writer_number(struct writer *writer, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    put(writer, digits + at, sizeof digits - at);
}

void writer_seconds(struct writer *writer, uint64_t us)
{
    char fraction[8] = ".000000";
    size_t length = 7;
    uint64_t rest = us % 1000000;
    for (size_t i = 6; i > 0; i--, rest /= 10)
        fraction[i] = (char)('0' + rest % 10);
    while (length > 1 && fraction[length - 1] == '0')
        length--;
    writer_number(writer, us / 1000000);
    if (length > 1)
        put(writer, fraction, length);
}

/* Both forms know \\, \" and \n; other control bytes have no form in a label. */
static void put_escaped(struct writer *writer, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t length = utf8_sequence(at);
        if (*at == '"' || *at == '\\')
            put(writer, (const char[]){'\\', (char)*at}, 2);
        else if (*at == '\n')
            put(writer, "\\n", 2);
        else if (length == 0 || *at < 0x20 || *at == 0x7F)
            put(writer, "?", 1);
        else
            put(writer, (const char *)at, length);
        at += length ? length : 1;
    }
}

void writer_label(struct writer *writer, const char *name, const char *value)
{
    writer_text(writer, name);
    writer_text(writer, "=\"");
    put_escaped(writer, value);
    writer_text(writer, "\",");
}

void writer_trim(struct writer *writer, char last)
{
    if (writer->used && writer->text[writer->used - 1] == last)
        writer->used--;
}

void writer_string(struct writer *writer, const char *text)
{
    writer_text(writer, "\"");
    put_escaped(writer, text);
    writer_text(writer, "\"");
}
