/*
 * What a file says of its tensors: the metadata buffer (a flatbuffer of its own) and the files in the zip archive behind the model. From them come the names of the
 * classes and how pixels were normalised. Metadata that is broken is left out; the model runs without it.
 *
 * Source: TensorFlow Lite's metadata schema M001; the zip archive's end record, directory and local headers.
 */
#include <string.h>

#include "import/tflite/reader.h"

enum { META_SUBGRAPHS = 3 };
enum { META_INPUTS = 2, META_OUTPUTS = 3 }; /* of a subgraph */
enum { META_UNITS = 4, META_FILES = 6 };    /* of a tensor */
enum { FILE_NAME = 0, FILE_KIND = 2, AXIS_LABELS = 2, VALUE_LABELS = 3 };
enum { UNIT_KIND = 0, UNIT_OPTIONS = 1, NORMALISATION = 1 }; /* of a processing unit */

#define LABELS_BYTES_MAX (1u << 20)
#define ZIP_END_BYTES    22u
#define ZIP_TAIL_MAX     (65535u + ZIP_END_BYTES) /* where the end record may begin, from the end */

/* ---- the archive behind the model ------------------------------------------------------------------------------------------ */

struct zip {
    struct fb f;          /* the whole file */
    size_t entries, base; /* where the directory begins; what positions in it are counted from */
    uint32_t count;
};

static bool zip_open(const struct fb *file, struct zip *z)
{
    *z = (struct zip){.f = {.at = file->at, .size = file->size}};
    size_t least = file->size > ZIP_TAIL_MAX ? file->size - ZIP_TAIL_MAX : 0;
    for (size_t at = file->size; at-- > least + ZIP_END_BYTES;) {
        size_t end = at - ZIP_END_BYTES + 1;
        if (fb_read(&z->f, end, 4) != 0x06054b50)
            continue;
        uint64_t bytes = fb_read(&z->f, end + 12, 4), from = fb_read(&z->f, end + 16, 4);
        if (bytes + from > end)
            return false;
        z->count = (uint32_t)fb_read(&z->f, end + 10, 2);
        z->entries = end - (size_t)bytes;
        z->base = z->entries - (size_t)from;
        return true;
    }
    return false;
}

/* A file that is stored as it is; packed ones are not read. */
static const char *zip_find(struct zip *z, const struct fb_text *name, size_t *ret_bytes)
{
    size_t at = z->entries;
    for (uint32_t i = 0; i < z->count && !z->f.broken && fb_read(&z->f, at, 4) == 0x02014b50; i++) {
        size_t length = (size_t)fb_read(&z->f, at + 28, 2), bytes = (size_t)fb_read(&z->f, at + 24, 4);
        size_t more = (size_t)(fb_read(&z->f, at + 30, 2) + fb_read(&z->f, at + 32, 2));
        size_t local = z->base + (size_t)fb_read(&z->f, at + 42, 4);
        bool stored = fb_read(&z->f, at + 10, 2) == 0 && at + 46 + length <= z->f.size;
        if (stored && length == name->bytes && memcmp(z->f.at + at + 46, name->at, length) == 0) {
            size_t data = local + 30 + (size_t)(fb_read(&z->f, local + 26, 2) + fb_read(&z->f, local + 28, 2));
            bool inside = fb_read(&z->f, local, 4) == 0x04034b50 && data <= z->f.size && bytes <= z->f.size - data;
            *ret_bytes = bytes;
            return inside && !z->f.broken ? (const char *)z->f.at + data : NULL;
        }
        at += 46 + length + more;
    }
    return NULL;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------------ */

static struct fb_table tensor_at(const struct fb_table *subgraph, unsigned side, uint32_t index)
{
    struct fb_list list = fb_vector(subgraph, side, 4);
    return index < list.count ? fb_list_table(&list, index) : (struct fb_table){.f = subgraph->f};
}

/* The names of the classes of the first output that has some. */
static void labels_note(struct graph *g, const struct fb_table *subgraph, struct zip *z, struct graph_notes *notes)
{
    uint32_t outputs = fb_vector(subgraph, META_OUTPUTS, 4).count;
    for (uint32_t i = 0; i < outputs && notes->labels == NULL && !subgraph->f->broken; i++) {
        struct fb_table tensor = tensor_at(subgraph, META_OUTPUTS, i);
        struct fb_list files = fb_vector(&tensor, META_FILES, 4);
        for (uint32_t k = 0; k < files.count && notes->labels == NULL && !subgraph->f->broken; k++) {
            struct fb_table file = fb_list_table(&files, k);
            uint64_t kind = fb_uint(&file, FILE_KIND, 1, 0);
            struct fb_text name = fb_string(&file, FILE_NAME);
            size_t bytes = 0;
            const char *text = kind == AXIS_LABELS || kind == VALUE_LABELS ? zip_find(z, &name, &bytes) : NULL;
            if (text == NULL || bytes == 0 || bytes > LABELS_BYTES_MAX || memchr(text, '\0', bytes) != NULL)
                continue;
            notes->labels = graph_text(g, text, bytes);
            notes->labels_bytes = notes->labels ? bytes : 0;
        }
    }
}

static void normalisation_note(const struct fb_table *subgraph, struct graph_notes *notes)
{
    struct fb_table tensor = tensor_at(subgraph, META_INPUTS, 0);
    struct fb_list units = fb_vector(&tensor, META_UNITS, 4);
    for (uint32_t i = 0; i < units.count && notes->channels == 0 && !subgraph->f->broken; i++) {
        struct fb_table unit = fb_list_table(&units, i), options = fb_child(&unit, UNIT_OPTIONS);
        struct fb_list mean = fb_vector(&options, 0, 4), deviation = fb_vector(&options, 1, 4);
        if (fb_uint(&unit, UNIT_KIND, 1, 0) != NORMALISATION || mean.count != deviation.count || mean.count == 0 ||
            mean.count > GRAPH_NOTES_CHANNELS)
            continue;
        for (uint32_t k = 0; k < mean.count; k++) {
            notes->mean[k] = fb_list_float(&mean, k);
            notes->deviation[k] = fb_list_float(&deviation, k);
        }
        notes->channels = mean.count;
    }
}

/* The metadata's bytes; an empty one when the file has none. */
static struct fb metadata_of(struct reader *r, const struct fb_table *root)
{
    static const char key[] = "TFLITE_METADATA";
    struct fb_list entries = fb_vector(root, MODEL_METADATA, 4);
    for (uint32_t i = 0; i < entries.count && !r->f->broken; i++) {
        struct fb_table entry = fb_list_table(&entries, i);
        struct fb_text name = fb_string(&entry, 0);
        uint64_t index = fb_uint(&entry, 1, 4, 0);
        if (name.bytes != sizeof key - 1 || memcmp(name.at, key, name.bytes) != 0 || index >= r->buffers.count)
            continue;
        struct fb_table buffer = fb_list_table(&r->buffers, (uint32_t)index);
        struct fb_list data = fb_vector(&buffer, BUFFER_DATA, 1);
        if (data.count >= 8)
            return (struct fb){.at = fb_list_data(&data), .size = data.count};
    }
    return (struct fb){0};
}

void lite_notes(struct reader *r, struct graph *g, const struct fb_table *root, uint32_t subgraph)
{
    struct fb m = metadata_of(r, root);
    struct zip z;
    if (m.at == NULL || m.size < 8 || memcmp(m.at + 4, "M001", 4) != 0)
        return;
    struct fb_table model = fb_root(&m);
    struct fb_list subgraphs = fb_vector(&model, META_SUBGRAPHS, 4);
    struct graph_notes *notes = subgraph < subgraphs.count ? graph_alloc(g, sizeof *notes) : NULL;
    if (notes == NULL)
        return;
    struct fb_table told = fb_list_table(&subgraphs, subgraph);
    normalisation_note(&told, notes);
    if (zip_open(r->f, &z))
        labels_note(g, &told, &z, notes);
    if (!m.broken)
        g->notes = notes;
}
