/* resolve.c - pointers, the highest version, manifests. */
#include "resolve.h"

#include "content_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct highest {
    size_t skip; /* of each name: "models/NAME/versions/" */
    uint64_t version;
};

static bool highest_tell(void *context, const char *key)
{
    struct highest *highest = context;
    uint64_t version = strlen(key) > highest->skip ? reference_version(key + highest->skip) : 0;
    highest->version = version > highest->version ? version : highest->version;
    return true;
}

static enum pen_status highest_find(struct place *place, const char *name, uint64_t *ret_version,
                                    struct pen_error *reterr)
{
    char prefix[PLACE_KEY_BYTES];
    int length = snprintf(prefix, sizeof prefix, "models/%s/versions/", name);
    struct highest highest = {.skip = (size_t)length};
    enum pen_status status = place_list(place, prefix, highest_tell, &highest, reterr);
    if (status == PEN_OK && highest.version == 0)
        status = pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                               "%.200s has no model %s: `penstock model list --remote` shows what it has",
                               place_text(place), name);
    *ret_version = highest.version;
    return status;
}

enum pen_status resolve_digest(struct place *place, const struct model_reference *reference,
                               struct content_digest *ret_digest, struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES], what[REFERENCE_LABEL_BYTES + 32];
    uint64_t version = reference->version;
    enum pen_status status = PEN_OK;
    if (reference->digest.hex[0]) {
        *ret_digest = reference->digest;
        return PEN_OK;
    }
    if (version == 0 && !reference->label[0])
        status = highest_find(place, reference->name, &version, reterr);
    if (status != PEN_OK)
        return status;
    if (reference->label[0])
        label_key(reference->name, reference->label, key);
    else
        version_key(reference->name, version, key);
    status = pointer_read(place, key, ret_digest, reterr);
    snprintf(what, sizeof what, reference->label[0] ? "label %s" : "version %s", reference->label);
    if (!reference->label[0])
        snprintf(what, sizeof what, "version %" PRIu64, version);
    if (status == PEN_ERR_NOT_FOUND)
        pen_error_set(reterr, status,
                      "%.200s has no model %s with %s: `penstock model list --remote` shows what it has",
                      place_text(place), reference->name, what);
    return status;
}

enum pen_status resolve_manifest(struct place *place, const struct content_digest *digest, char **ret_text,
                                 size_t *ret_bytes, struct manifest *ret_manifest, struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES], *text = NULL;
    size_t bytes = 0;
    enum pen_status status =
        place_read_small(place, content_key(digest, key), MANIFEST_BYTES_MAX, &text, &bytes, reterr);
    if (status != PEN_OK)
        return status;
    struct content_digest found = content_digest_of(text, bytes);
    if (!content_digest_equal(&found, digest))
        status = pen_error_set(reterr, PEN_ERR_CORRUPT,
                               "the manifest %s of %.200s is not what its name says: its SHA-256 is %s", key,
                               place_text(place), found.hex);
    if (status == PEN_OK)
        status = manifest_parse(text, bytes, ret_manifest, reterr);
    if (status != PEN_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    *ret_bytes = bytes;
    return PEN_OK;
}

enum pen_status resolve_check(const struct model_reference *reference, const struct manifest *manifest,
                              struct pen_error *reterr)
{
    if (strcmp(manifest->model, reference->name) == 0 &&
        (reference->version == 0 || manifest->version == reference->version))
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_CORRUPT,
                         "the registry has the manifest of %s@%" PRIu64 " where that of %s should be", manifest->model,
                         manifest->version, reference->name);
}
