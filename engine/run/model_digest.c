#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "run/internal.h"

/* Computed at first use (SHA-256 takes a while over hundreds of megabytes), then kept. Two threads at once compute the same bytes. */
void pen_model_digest(const struct pen_model *model, uint8_t ret_digest[16])
{
    struct pen_model *m = (struct pen_model *)(uintptr_t)model;
    if (!atomic_load(&m->digest_known)) {
        struct digest_stream *stream = digest_new(DIGEST_SHA256);
        if (stream == NULL) {
            memset(ret_digest, 0, 16);
            return;
        }
        digest_update(stream, m->source.file, m->source.bytes);
        if (m->source.entry != NULL) { /* another function of the same file */
            digest_update_text(stream, m->source.entry);
        }
        for (uint32_t i = 0; i < m->extra.file_count; i++) {
            digest_update(stream, m->extra.files[i].data, m->extra.files[i].bytes);
        }
        struct digest d = digest_final(stream);
        digest_free(stream);
        source_cool(&m->source, &m->extra);
        memcpy(m->digest, d.bytes, sizeof m->digest);
        atomic_store(&m->digest_known, true);
    }
    memcpy(ret_digest, m->digest, 16);
}
