/* test_sign_s3.c - signatures of requests to buckets: the examples of AWS's own page "Signature Calculations for the
   Authorization Header", whose key, date and answers are given there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "content_digest.h"
#include "sign_s3.h"

#define DAY 1369353600 /* 2013-05-24T00:00:00Z */

static const struct sign_key key = {
    .id = "AKIAIOSFODNN7EXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", .region = "us-east-1"};

static void expect(const struct sign_key *with, const struct sign_asked *asked, const char *signature)
{
    static char headers[SIGN_HEADERS_MAX][SIGN_HEADER_BYTES];
    struct sign_asked whole = *asked;
    struct content_digest empty = content_digest_of("", 0);
    whole.host = "examplebucket.s3.amazonaws.com";
    whole.payload_sha256 = empty.hex;
    whole.now = DAY;
    cr_assert_gt(sign_s3(with, &whole, headers), 0);
    cr_assert(strstr(headers[0], signature), "%s %s?%s: %s", asked->method, asked->path, asked->query, headers[0]);
}

Test(sign_s3, the_examples_of_aws)
{
    expect(&key, &(struct sign_asked){.method = "GET", .path = "/test.txt", .query = "", .range = "bytes=0-9"},
           "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
           "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    expect(&key, &(struct sign_asked){.method = "GET", .path = "/", .query = "lifecycle="},
           "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    expect(&key, &(struct sign_asked){.method = "GET", .path = "/", .query = "max-keys=2&prefix=J"},
           "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

Test(sign_s3, the_token_of_a_session_is_signed)
{
    static char headers[SIGN_HEADERS_MAX][SIGN_HEADER_BYTES];
    struct sign_key session = key;
    struct sign_asked asked = {
        .method = "GET", .path = "/", .query = "", .host = "h", .payload_sha256 = "0", .now = DAY};
    strcpy(session.token, "a/token");
    size_t count = sign_s3(&session, &asked, headers);
    cr_assert(strstr(headers[0], "x-amz-date;x-amz-security-token,"), "%s", headers[0]);
    cr_assert_str_eq(headers[count - 1], "x-amz-security-token: a/token");
}

Test(sign_s3, paths_are_escaped_once)
{
    char text[64];
    cr_assert(sign_escape("a b/+%~é", true, text, sizeof text));
    cr_assert_str_eq(text, "a%20b/%2B%25~%C3%A9");
    cr_assert(sign_escape("a/b", false, text, sizeof text));
    cr_assert_str_eq(text, "a%2Fb");
    cr_assert(!sign_escape("aaaaaaaa", true, text, 8));
}
