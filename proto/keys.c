#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "small_file.h"

#define FILE_BYTES_MAX 4096u

bool key_name_valid(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return name[length] == '\0' && length > 0 && length < KEY_NAME_BYTES;
}

enum pen_status key_pair_new(struct key_pair *ret_pair)
{
    if (sodium_init() < 0)
        return PEN_ERR_IO;
    crypto_box_keypair(ret_pair->public_key, ret_pair->secret_key);
    return PEN_OK;
}

void key_pair_wipe(struct key_pair *pair)
{
    sodium_memzero(pair, sizeof *pair);
}

const char *key_text(const uint8_t key[KEY_BYTES], char text[KEY_TEXT_BYTES])
{
    return sodium_bin2hex(text, KEY_TEXT_BYTES, key, KEY_BYTES);
}

enum pen_status key_parse(const char *text, uint8_t ret_key[KEY_BYTES], struct pen_error *reterr)
{
    size_t used;
    uint8_t key[KEY_BYTES];
    const char *end;
    if (sodium_hex2bin(key, sizeof key, text, strlen(text), NULL, &used, &end) != 0 || used != sizeof key ||
        *end != '\0')
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a key has 64 hex digits, as `penstock keygen` prints it; this has %zu characters",
                             strlen(text));
    memcpy(ret_key, key, sizeof key);
    return PEN_OK;
}

enum pen_status key_file_write(const char *path, const struct key_pair *pair, struct pen_error *reterr)
{
    char public_text[KEY_TEXT_BYTES], secret_text[KEY_TEXT_BYTES], file[512];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pen_error_set(reterr, errno == EEXIST ? PEN_ERR_INVALID : PEN_ERR_IO,
                             "cannot write %.300s: %s; no key is overwritten", path, strerror(errno));
    key_text(pair->public_key, public_text);
    key_text(pair->secret_key, secret_text);
    int bytes = snprintf(file, sizeof file, "# a penstock key: only its owner may read it\npublic = %s\nsecret = %s\n",
                         public_text, secret_text);
    bool good = write(fd, file, (size_t)bytes) == bytes && fsync(fd) == 0;
    sodium_memzero(file, sizeof file);
    sodium_memzero(secret_text, sizeof secret_text);
    int error = errno;
    close(fd);
    return good ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "cannot write %.300s: %s", path, strerror(error));
}

static enum pen_status read_private(const char *path, char *text, size_t capacity, struct pen_error *reterr)
{
    struct stat facts;
    ssize_t got = small_file_read(path, text, capacity - 1, &facts);
    if (got < 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read the key file %.300s: %s; `penstock keygen` makes one",
                             path, small_file_reason(errno));
    text[got] = '\0';
    if (strlen(text) != (size_t)got)
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "a byte of the key file %.300s is 0: it is damaged, put the right one back", path);
    if (S_ISREG(facts.st_mode) && (facts.st_mode & 077) != 0)
        return pen_error_set(
            reterr, PEN_ERR_DENIED,
            "others may read the key file %.300s; chmod 600 it, and make a new key if somebody may have", path);
    return PEN_OK;
}

/* "name = HEX" at the start of a line. */
static bool find_key(const char *text, const char *name, uint8_t ret_key[KEY_BYTES])
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char digits[KEY_TEXT_BYTES];
        if (strncmp(line, name, length) != 0)
            continue;
        line += length + strspn(line + length, " \t");
        if (*line++ != '=')
            return false;
        line += strspn(line, " \t");
        size_t count = strspn(line, "0123456789abcdefABCDEF");
        if (count != KEY_TEXT_BYTES - 1)
            return false;
        memcpy(digits, line, count);
        digits[count] = '\0';
        bool good = key_parse(digits, ret_key, NULL) == PEN_OK;
        sodium_memzero(digits, sizeof digits);
        return good;
    }
    return false;
}

enum pen_status key_file_read(const char *path, struct key_pair *ret_pair, struct pen_error *reterr)
{
    char text[FILE_BYTES_MAX];
    struct key_pair pair;
    uint8_t computed[KEY_BYTES];
    enum pen_status status = read_private(path, text, sizeof text, reterr);
    if (status != PEN_OK)
        return status;
    bool good = sodium_init() >= 0 && find_key(text, "public", pair.public_key) &&
                find_key(text, "secret", pair.secret_key) && crypto_scalarmult_base(computed, pair.secret_key) == 0 &&
                sodium_memcmp(computed, pair.public_key, sizeof computed) == 0;
    sodium_memzero(text, sizeof text);
    if (good)
        *ret_pair = pair;
    key_pair_wipe(&pair);
    return good ? PEN_OK
                : pen_error_set(
                      reterr, PEN_ERR_CORRUPT,
                      "%.300s holds no key pair: two lines, public = HEX and secret = HEX, that belong together", path);
}

enum pen_status key_set_read(const char *key_file, const char *broker_key, struct key_set *ret_set,
                             struct pen_error *reterr)
{
    bool has_file = key_file && *key_file, has_broker = broker_key && *broker_key;
    struct key_set set = {.used = has_file};
    if (has_file != has_broker)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "an encrypted connection needs both: a key file of one's own and the broker's public key");
    enum pen_status status = has_file ? key_parse(broker_key, set.broker, reterr) : PEN_OK;
    if (status == PEN_OK && has_file)
        status = key_file_read(key_file, &set.own, reterr);
    if (status == PEN_OK)
        *ret_set = set;
    key_pair_wipe(&set.own);
    return status;
}
