/* Which format a file has, by its content. All of them are known in every build, so that a format that was left out can be named. */
#include <string.h>

#include "import/importer.h"
#include "import/onnx/wire.h"

/* ModelProto: ir_version = 1, graph = 7; other fields have numbers up to 26. */
static bool onnx_field(const struct wire_field *f)
{
    return f->number > 0 && f->number <= 26 && (f->number != 1 || f->type == WIRE_VARINT);
}

bool onnx_probe(const void *bytes, size_t size)
{
    struct bytes message = {bytes, size};
    struct wire_field f;
    bool version = false;
    for (unsigned i = 0; i < 64 && wire_next(&message, &f) == 1; i++) {
        if (f.number == 1 && f.type == WIRE_VARINT && f.value > 0 && f.value < 1000) {
            version = true;
        } else if (f.number == 7 && f.type == WIRE_BYTES) {
            return version || f.bytes.size > 0;
        } else if (!onnx_field(&f)) {
            return false;
        }
    }
    return version && wire_lacks((struct bytes){bytes, size}) > 0;
}

bool tflite_probe(const void *bytes, size_t size)
{
    return size >= 16 && memcmp((const char *)bytes + 4, "TFL3", 4) == 0;
}

#define BLANKS_MAX (64u << 10)

static bool blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

bool json_cut(const void *bytes, size_t size)
{
    const char *at = bytes;
    uint64_t depth = 0;
    bool text = false, began = false;
    for (size_t i = 0; i < size && (depth > 0 || !began); i++) {
        if (text) {
            i += at[i] == '\\';
            text = i < size && at[i] != '"';
        } else {
            text = at[i] == '"';
            began |= at[i] == '{' || at[i] == '[';
            depth += at[i] == '{' || at[i] == '[';
            depth -= (at[i] == '}' || at[i] == ']') && depth > 0;
        }
    }
    return depth > 0;
}

static bool has_word(const char *at, size_t size, const char *word)
{
    return memmem(at, size, word, strlen(word)) != NULL;
}

bool tfjs_probe(const void *bytes, size_t size)
{
    const char *at = bytes;
    size_t i = size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (i < size && i < BLANKS_MAX && blank(at[i])) {
        i++;
    }
    if (i >= size || at[i] != '{') {
        return false;
    }
    bool topology = has_word(at, size, "\"modelTopology\""); /* words may come late: the whole file is searched */
    bool named = topology || has_word(at, size, "\"graph-model\"") || has_word(at, size, "\"layers-model\"");
    return (topology && has_word(at, size, "\"weightsManifest\"")) || (named && json_cut(at + i, size - i));
}
