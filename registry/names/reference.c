/* reference.c - reads NAME[@VERSION|:LABEL|@sha256:DIGEST]. */
#include "reference.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool word_good(const char *word, size_t room)
{
    size_t length = strlen(word);
    for (const char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_' && *c != '-')
            return false;
    return length > 0 && length < room;
}

bool reference_name_good(const char *name)
{
    return word_good(name, REFERENCE_NAME_BYTES) && (isalnum((unsigned char)name[0]) || name[0] == '_');
}

bool reference_label_good(const char *label)
{
    return word_good(label, REFERENCE_LABEL_BYTES) && isalpha((unsigned char)label[0]);
}

uint64_t reference_version(const char *text)
{
    size_t length = strlen(text);
    if (text[0] < '1' || text[0] > '9' || length > 18 || strspn(text, "0123456789") != length)
        return 0;
    return strtoull(text, NULL, 10);
}

static enum pen_status form_wrong(const char *text, struct pen_error *reterr)
{
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "'%.200s' names no model of a registry: write NAME, NAME@VERSION (a number from 1), NAME:LABEL "
        "or NAME@sha256:DIGEST; names have letters, digits, '.', '_', '-'",
        text);
}

enum pen_status reference_parse(const char *text, struct model_reference *ret_reference, struct pen_error *reterr)
{
    struct model_reference found = {.version = 0};
    size_t length = strcspn(text, "@:");
    const char *rest = text + length;
    if (length >= sizeof found.name)
        return form_wrong(text, reterr);
    memcpy(found.name, text, length);
    bool good = reference_name_good(found.name);
    if (strncmp(rest, "@sha256:", 8) == 0)
        good = good && content_digest_parse(rest + 8, &found.digest);
    else if (*rest == '@')
        good = good && (found.version = reference_version(rest + 1)) != 0;
    else if (*rest == ':')
        good = good && reference_label_good(rest + 1);
    if (!good)
        return form_wrong(text, reterr);
    if (*rest == ':')
        snprintf(found.label, sizeof found.label, "%.64s", rest + 1);
    *ret_reference = found;
    return PEN_OK;
}
