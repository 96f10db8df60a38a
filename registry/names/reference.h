/*
 * reference.h - what people write for a model of a registry: NAME, NAME@VERSION, NAME:LABEL, NAME@sha256:DIGEST.
 *
 * NAME alone means the highest version. A name has letters, digits, '.', '_', '-', begins with a letter, a digit or '_',
 * and has at most 128 bytes. A version is a number from 1. A label is like a name, but begins with a letter and has at
 * most 64 bytes. A digest is that of a manifest: it names the content, whatever the registry says of it later.
 * Threads: any.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "content_digest.h"
#include "penstock/status.h"

#define REFERENCE_NAME_BYTES  129
#define REFERENCE_LABEL_BYTES 65
#define REFERENCE_TEXT_BYTES  256

struct model_reference {
    char name[REFERENCE_NAME_BYTES];
    char label[REFERENCE_LABEL_BYTES]; /* "" = none */
    uint64_t version;                  /* 0 = none */
    struct content_digest digest;      /* "" = none */
};

enum pen_status reference_parse(const char *text, struct model_reference *ret_reference, struct pen_error *reterr);
bool reference_name_good(const char *name);
bool reference_label_good(const char *label);
/* "12" -> 12; 0 for anything else. */
uint64_t reference_version(const char *text);

#endif
