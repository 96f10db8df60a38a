/* The list of keys and the question about a key: any file is read, or refused with the number of its line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keyring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    uint8_t key[KEY_BYTES] = {0};
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/penstock-fuzz-keys-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
    if (keyring_new(path, &keyring, &error) == PEN_OK) {
        memcpy(key, data, size < sizeof key ? size : sizeof key);
        keyring_knows(keyring, key);
        keyring_free(keyring);
    } else if (!strstr(error.text, path)) {
        abort();
    }
    unlink(path);
    return 0;
}
