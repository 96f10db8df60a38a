/* Any bytes as what lies beside a model: the body of a file of kept measurements, and a .npy file of a calibration. */
#include "graph/memo.h"
#include "npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

static void put(uint8_t *at, size_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* With a head that fits, so that the body is read. */
static void memo(const uint8_t *data, size_t size)
{
    static uint8_t file[65536];
    struct memo_record records[MEMO_RECORDS];
    size_t count = 0;
    if (size < 1 || size > sizeof file - 64)
        return;
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return;
    memcpy(file, "PENMEMO1", 8);
    put(file + 8, data[0] % (MEMO_RECORDS + 2));
    put(file + 12, size - 1);
    memcpy(file + 32, data + 1, size - 1);
    digest_update(stream, file + 32, size - 1);
    struct digest digest = digest_final(stream);
    digest_free(stream);
    memcpy(file + 16, digest.bytes, 16);
    bool good = memo_parse(file, 31 + size, records, &count);
    require(good || count == 0);
    for (size_t i = 0; i < count; i++)
        require(records[i].key >= file + 32 && records[i].value + records[i].bytes <= file + 31 + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memo_record records[MEMO_RECORDS];
    struct pen_tensor tensor;
    struct pen_error error = {.status = PEN_OK};
    size_t count = 0;
    (void)memo_parse(data, size, records, &count);
    memo(data, size);
    if (npy_view(data, size, "x.npy", &tensor, &error) == PEN_OK) {
        require(tensor.rank <= PEN_MAX_RANK);
        require((const uint8_t *)tensor.data >= data && (const uint8_t *)tensor.data + tensor.bytes <= data + size);
    } else {
        require(error.text[0] != '\0');
    }
    return 0;
}
