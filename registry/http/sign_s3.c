/* sign_s3.c - canonical request, text to sign, signing key, Authorization. */
#include "sign_s3.h"

#include "content_digest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define CANONICAL_BYTES 6144u
#define SIGNED_HEADERS  "host%s;x-amz-content-sha256;x-amz-date%s"

static void hmac(const void *key, size_t key_bytes, const char *text, unsigned char out[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, key, key_bytes);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&state, out);
}

/* AWS4-HMAC-SHA256 of `text` by the key of that day, region and service. */
static void signature_make(const struct sign_key *key, const char *day, const char *text,
                           char ret_hex[CONTENT_DIGEST_TEXT])
{
    char secret[sizeof key->secret + 4];
    unsigned char step[crypto_auth_hmacsha256_BYTES];
    int length = snprintf(secret, sizeof secret, "AWS4%s", key->secret);
    hmac(secret, (size_t)length, day, step);
    hmac(step, sizeof step, key->region, step);
    hmac(step, sizeof step, "s3", step);
    hmac(step, sizeof step, "aws4_request", step);
    hmac(step, sizeof step, text, step);
    sodium_bin2hex(ret_hex, CONTENT_DIGEST_TEXT, step, sizeof step);
    sodium_memzero(secret, sizeof secret);
}

bool sign_escape(const char *text, bool slashes, char *ret_text, size_t room)
{
    size_t used = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        bool plain = isalnum(*c) || strchr("-._~", *c) || (slashes && *c == '/');
        int more = snprintf(ret_text + used, room - used, plain ? "%c" : "%%%02X", *c);
        used += (size_t)more;
        if (used >= room)
            return false;
    }
    ret_text[used] = '\0';
    return true;
}

struct moment {
    char day[16], stamp[24]; /* 20130524, 20130524T000000Z */
};

static bool canonical_make(const struct sign_key *key, const struct sign_asked *asked, const struct moment *moment,
                           const char *names, char text[CANONICAL_BYTES])
{
    int length = snprintf(text, CANONICAL_BYTES,
                          "%s\n%s\n%s\nhost:%s\n%s%s%sx-amz-content-sha256:%s\nx-amz-date:%s\n%s%s%s\n%s\n%s",
                          asked->method, asked->path, asked->query, asked->host, asked->range ? "range:" : "",
                          asked->range ? asked->range : "", asked->range ? "\n" : "", asked->payload_sha256,
                          moment->stamp, key->token[0] ? "x-amz-security-token:" : "", key->token,
                          key->token[0] ? "\n" : "", names, asked->payload_sha256);
    return length > 0 && (size_t)length < CANONICAL_BYTES;
}

size_t sign_s3(const struct sign_key *key, const struct sign_asked *asked,
               char headers[SIGN_HEADERS_MAX][SIGN_HEADER_BYTES])
{
    struct moment moment;
    struct tm utc;
    char names[128], canonical[CANONICAL_BYTES], text[512], hex[CONTENT_DIGEST_TEXT];
    size_t count = 0;
    gmtime_r(&asked->now, &utc);
    strftime(moment.day, sizeof moment.day, "%Y%m%d", &utc);
    strftime(moment.stamp, sizeof moment.stamp, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(names, sizeof names, SIGNED_HEADERS, asked->range ? ";range" : "",
             key->token[0] ? ";x-amz-security-token" : "");
    if (!canonical_make(key, asked, &moment, names, canonical))
        return 0;
    struct content_digest digest = content_digest_of(canonical, strlen(canonical));
    snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", moment.stamp, moment.day,
             key->region, digest.hex);
    signature_make(key, moment.day, text, hex);
    snprintf(headers[count++], SIGN_HEADER_BYTES,
             "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request, SignedHeaders=%s, Signature=%s",
             key->id, moment.day, key->region, names, hex);
    snprintf(headers[count++], SIGN_HEADER_BYTES, "x-amz-content-sha256: %s", asked->payload_sha256);
    snprintf(headers[count++], SIGN_HEADER_BYTES, "x-amz-date: %s", moment.stamp);
    if (asked->range)
        snprintf(headers[count++], SIGN_HEADER_BYTES, "Range: %s", asked->range);
    if (key->token[0])
        snprintf(headers[count++], SIGN_HEADER_BYTES, "x-amz-security-token: %s", key->token);
    return count;
}
