/* fuzz_manifest.c - manifests and references of registries, as a stranger may write them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken breaks no rule, and means the same when it is written and read again. */
static void manifest_pass(const struct manifest *manifest)
{
    struct manifest again;
    char *text = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < manifest->count; i++) {
        const char *path = manifest->files[i].path;
        if (path[0] == '/' || path[0] == '.' || strstr(path, "/.") || strstr(path, "//"))
            abort();
        if (i > 0 && strcmp(manifest->files[i - 1].path, path) >= 0)
            abort();
    }
    if (manifest_write(manifest, &text, &bytes, NULL) != PEN_OK)
        return; /* longer with its escapes than a manifest may be */
    if (manifest_parse(text, bytes, &again, NULL) != PEN_OK || again.count != manifest->count ||
        again.bytes != manifest->bytes || again.version != manifest->version)
        abort();
    manifest_fini(&again);
    free(text);
}

static void reference_pass(const char *text)
{
    struct model_reference reference;
    if (reference_parse(text, &reference, NULL) == PEN_OK &&
        (strchr(reference.name, '/') || reference.name[0] == '.' || reference.name[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest manifest;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    reference_pass(text);
    if (manifest_parse(text, size, &manifest, NULL) == PEN_OK) {
        manifest_pass(&manifest);
        manifest_fini(&manifest);
    }
    free(text);
    return 0;
}
