#include "note.h"

#include <stdlib.h>

struct note *note_new(enum note_kind kind, struct job_id id)
{
    struct note *note = calloc(1, sizeof *note);
    if (!note)
        return NULL;
    note->kind = kind;
    note->id = id;
    return note;
}

void note_free(struct note *note)
{
    if (!note)
        return;
    shared_message_release(note->shared);
    free(note->list);
    free(note);
}
