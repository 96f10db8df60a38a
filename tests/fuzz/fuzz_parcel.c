/* Any bytes as a datagram of the Unix socket for sealed memory: what is read lies within its limits. */
#include "parcel.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct parcel_limits limits = {.frame_bytes_max = 1u << 20, .bytes_max = 4u << 20};
    struct parcel_claim claim;
    struct parcel parcel;
    parcel_claim_read(data, size, &claim);
    for (uint32_t blocks = 0; blocks <= PARCEL_BLOCKS_MAX; blocks++) {
        if (!parcel_read(data, size, blocks, &limits, &parcel))
            continue;
        if (parcel.frames_count == 0 || parcel.frames_count > FRAME_MAX_TENSORS || parcel.number == 0 ||
            parcel_bytes(&parcel) > limits.bytes_max)
            abort();
        for (uint32_t i = 0; i < parcel.frames_count; i++)
            if (parcel.frames[i].block >= blocks || parcel.frames[i].bytes > limits.frame_bytes_max)
                abort();
    }
    return 0;
}
