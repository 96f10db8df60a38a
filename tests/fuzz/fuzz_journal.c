/* Whatever a journal file holds: records are read or refused, payloads unpacked or refused, and what is whole survives being packed again. */
#include <stdint.h>
#include <stdlib.h>

#include "journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void payload(const uint8_t *bytes, size_t size)
{
    char text[65];
    uint32_t status;
    size_t again;
    struct shared_message *shared = journal_unpack(bytes, size, text, sizeof text, &status);
    uint8_t *packed = shared ? journal_pack(text, status, shared, &again) : NULL;
    if (packed && again > size)
        abort();
    free(packed);
    shared_message_release(shared);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal_record record;
    size_t at = 0, used;
    while ((used = journal_read(data + at, size - at, &record)) > 0) {
        if (used > size - at)
            abort();
        payload(record.payload, record.bytes);
        at += used;
    }
    journal_newer(data + at, size - at);
    payload(data, size); /* the digest keeps the fuzzer from reaching it through a record */
    return 0;
}
