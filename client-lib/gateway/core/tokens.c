#include "tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest.h"

#define FILE_BYTES_MAX  (256u * 1024u)
#define TOKEN_BYTES_MIN 16u
#define TOKEN_BYTES_MAX 256u

struct token {
    struct digest digest;
    struct token_owner owner;
};

struct token_list {
    size_t count;
    struct token tokens[TOKENS_MAX];
};

struct tokens {
    char *path;
    struct stat seen;
    struct token_list *list;
};

static bool digest_of(const char *token, size_t bytes, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return false;
    digest_update(stream, token, bytes);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}

/* The first 16 of the 32 bytes of a SHA-256 in hex: those that digest.h keeps. */
static bool digest_parse(const char *hex, struct digest *ret_digest)
{
    if (strlen(hex) != 64 || strspn(hex, "0123456789abcdefABCDEF") != 64)
        return false;
    for (size_t i = 0; i < sizeof ret_digest->bytes; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret_digest->bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static const char *parse_token(const char *text, struct digest *ret_digest)
{
    if (strncmp(text, "sha256:", 7) == 0)
        return digest_parse(text + 7, ret_digest) ? NULL : "behind sha256: stand 64 hex digits";
    size_t bytes = strlen(text);
    if (bytes < TOKEN_BYTES_MIN || bytes > TOKEN_BYTES_MAX)
        return "a token has 16 to 256 characters";
    return digest_of(text, bytes, ret_digest) ? NULL : "there is no memory";
}

/* NULL: well. */
static const char *parse_line(char *line, struct token_list *list)
{
    char *rest = NULL, *name = strtok_r(line, " \t\r", &rest), *key = strtok_r(NULL, " \t\r", &rest);
    char *token = strtok_r(NULL, " \t\r", &rest), *more = strtok_r(NULL, " \t\r", &rest);
    if (!name || *name == '#')
        return NULL;
    if (!token || (more && (strcmp(more, "settings") != 0 || strtok_r(NULL, " \t\r", &rest))))
        return "a line is NAME KEY_FILE TOKEN [settings]";
    if (list->count == TOKENS_MAX)
        return "there are more than 256 tokens";
    struct token *to = &list->tokens[list->count];
    if (!key_name_valid(name) || strlen(key) >= sizeof to->owner.key_file)
        return "the name has characters that no name may have, or the path of the key is too long";
    *to = (struct token){.owner.settings = more != NULL};
    snprintf(to->owner.name, sizeof to->owner.name, "%s", name);
    snprintf(to->owner.key_file, sizeof to->owner.key_file, "%s", key);
    const char *why = parse_token(token, &to->digest);
    list->count += why == NULL;
    return why;
}

static enum pen_status parse(const char *path, char *text, struct token_list *list, struct pen_error *reterr)
{
    unsigned number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        const char *why = parse_line(line, list);
        if (why)
            return pen_error_set(reterr, PEN_ERR_INVALID, "--tokens %s, line %u: %s", path, number, why);
    }
    return list->count ? PEN_OK : pen_error_set(reterr, PEN_ERR_INVALID, "--tokens %s has no token in it", path);
}

static enum pen_status read_text(const char *path, char *text, struct stat *ret_stat, struct pen_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, ret_stat) != 0 || !S_ISREG(ret_stat->st_mode)) {
        pen_error_set(reterr, PEN_ERR_IO, "--tokens %s cannot be read: %s", path,
                      fd < 0 ? strerror(errno) : "it is no ordinary file");
        if (fd >= 0)
            close(fd);
        return PEN_ERR_IO;
    }
    ssize_t count = read(fd, text, FILE_BYTES_MAX);
    close(fd);
    if (ret_stat->st_mode & (S_IRWXG | S_IRWXO))
        return pen_error_set(reterr, PEN_ERR_DENIED, "--tokens %s may be read by others; do: chmod 600 %s", path, path);
    if (count < 0 || (size_t)count == FILE_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_IO, "--tokens %s cannot be read, or is larger than 256 KiB", path);
    text[count] = '\0';
    return PEN_OK;
}

static enum pen_status load(const char *path, struct stat *ret_seen, struct token_list **ret_list,
                            struct pen_error *reterr)
{
    struct token_list *list = calloc(1, sizeof *list);
    char *text = calloc(1, FILE_BYTES_MAX + 1);
    enum pen_status status = list && text ? read_text(path, text, ret_seen, reterr)
                                          : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for --tokens");
    if (status == PEN_OK)
        status = parse(path, text, list, reterr);
    if (text)
        explicit_bzero(text, FILE_BYTES_MAX);
    free(text);
    if (status == PEN_OK)
        *ret_list = list;
    else
        free(list);
    return status;
}

enum pen_status tokens_new(const char *path, struct tokens **ret_tokens, struct pen_error *reterr)
{
    struct tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens)
        tokens->path = strdup(path);
    enum pen_status status = tokens && tokens->path
                                 ? load(path, &tokens->seen, &tokens->list, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for --tokens");
    if (status == PEN_OK)
        *ret_tokens = tokens;
    else
        tokens_free(tokens);
    return status;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->list);
    free(tokens->path);
    free(tokens);
}

enum pen_status tokens_refresh(struct tokens *tokens, struct pen_error *reterr)
{
    struct stat now;
    struct token_list *list = NULL;
    if (stat(tokens->path, &now) != 0)
        return PEN_OK; /* it is being replaced */
    if (now.st_mtim.tv_sec == tokens->seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == tokens->seen.st_mtim.tv_nsec &&
        now.st_ino == tokens->seen.st_ino && now.st_size == tokens->seen.st_size)
        return PEN_OK;
    enum pen_status status = load(tokens->path, &now, &list, reterr);
    tokens->seen = now;
    if (status != PEN_OK)
        return status;
    free(tokens->list);
    tokens->list = list;
    return PEN_OK;
}

const struct token_owner *tokens_find(const struct tokens *tokens, const char *token, size_t bytes)
{
    const struct token_owner *found = NULL;
    struct digest digest;
    if (bytes > TOKEN_BYTES_MAX || !digest_of(token, bytes, &digest))
        return NULL;
    for (size_t i = 0; i < tokens->list->count; i++) {
        unsigned differ = 0;
        for (size_t k = 0; k < sizeof digest.bytes; k++)
            differ |= (unsigned)(digest.bytes[k] ^ tokens->list->tokens[i].digest.bytes[k]);
        found = differ == 0 ? &tokens->list->tokens[i].owner : found;
    }
    return found;
}
