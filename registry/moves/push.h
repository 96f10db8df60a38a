/*
 * push.h - a model's folder into a registry: contents first, then the manifest, then the version, then its labels. So
 * whoever reads the registry meanwhile sees the version whole, or not at all.
 *
 * Threads: one-at-a-time; makes threads of its own for the time of a call.
 */
#ifndef PUSH_H
#define PUSH_H

#include "manifest.h"
#include "place.h"

struct push {
    struct place *place;
    const char *folder; /* NAME/, of which the highest version is pushed, or NAME/VERSION/ */
    const char *name;   /* NULL = that of the folder */
    uint64_t version;   /* what it is called in the registry; 0 = as the folder says */
    const char *label;  /* NULL = none */
    bool replace;       /* a version that is there already with other files is replaced */
    unsigned parallel;  /* uploads at a time, at least 1 */
    bool (*stop)(void);
};

struct pushed {
    char name[REFERENCE_NAME_BYTES];
    uint64_t version;
    struct content_digest digest;
    size_t files;
    uint64_t bytes, sent_bytes; /* of all files; of those that the registry did not have */
};

/*
 * What goes along: every file of the version's folder, and of the model's folder beside the versions; those of the
 * version's folder win. Hidden files stay. INVALID: a file is a link out of the model, a pipe or a device, or the
 * version is there with other files.
 */
enum pen_status push_run(const struct push *push, struct pushed *ret_pushed, struct pen_error *reterr);

/* Lets a label point to a version that the registry has. */
enum pen_status push_label(struct place *place, const char *name, uint64_t version, const char *label,
                           struct pen_error *reterr);

#endif
