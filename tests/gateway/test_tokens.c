/* tokens.h: who a token belongs to. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "process.h"
#include "tokens.h"

static char path[FOLDER_PATH_BYTES + 16];
static struct pen_error error;

static void put(const char *text)
{
    char folder[FOLDER_PATH_BYTES];
    if (!*path) {
        folder_new(folder);
        snprintf(path, sizeof path, "%s/tokens", folder);
    }
    file_write(path, text, strlen(text));
    chmod(path, 0600);
}

static const char *owner_of(const struct tokens *tokens, const char *token)
{
    const struct token_owner *owner = tokens_find(tokens, token, strlen(token));
    return owner ? owner->name : "nobody";
}

Test(tokens, a_token_has_an_owner)
{
    struct tokens *tokens = NULL;
    put("# a comment\n\nann /k/ann  ann-token-12345678\nben /k/ben "
        "sha256:15b44c9a4a6f2e9a4f9b5b2a1ec12c0bd7d0d1a2b3a24a0b3d1c1f0e5a4b3c2d settings\n");
    cr_assert(tokens_new(path, &tokens, &error) == PEN_OK, "%s", error.text);
    cr_assert_str_eq(owner_of(tokens, "ann-token-12345678"), "ann");
    cr_assert_str_eq(owner_of(tokens, "ann-token-12345679"), "nobody");
    cr_assert_str_eq(owner_of(tokens, ""), "nobody");
    const struct token_owner *ann = tokens_find(tokens, "ann-token-12345678", 18);
    cr_assert(!ann->settings);
    cr_assert_str_eq(ann->key_file, "/k/ann");
    put("cid /k/cid a-third-token-of-3\n");
    cr_assert(tokens_refresh(tokens, &error) == PEN_OK);
    cr_assert_str_eq(owner_of(tokens, "a-third-token-of-3"), "cid");
    cr_assert_str_eq(owner_of(tokens, "ann-token-12345678"), "nobody");
    put("half a line");
    cr_assert(tokens_refresh(tokens, &error) == PEN_ERR_INVALID);
    cr_assert_str_eq(owner_of(tokens, "a-third-token-of-3"), "cid", "a bad file changes nothing");
    tokens_free(tokens);
}

Test(tokens, a_bad_file_is_refused_with_its_line)
{
    static const char *const texts[] = {"",
                                        "# nothing\n",
                                        "ann /k/ann short\n",
                                        "ann /k/ann\n",
                                        "a/n /k/ann ann-token-12345678\n",
                                        "ann /k/ann ann-token-12345678 root\n",
                                        "ann /k/ann sha256:12\n",
                                        "ann /k/ann ann-token-12345678 settings more\n"};
    struct tokens *tokens = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put(texts[i]);
        cr_assert(tokens_new(path, &tokens, &error) == PEN_ERR_INVALID, "%s", texts[i]);
    }
    put("ann /k/ann ann-token-12345678\n");
    chmod(path, 0640);
    cr_assert(tokens_new(path, &tokens, &error) == PEN_ERR_DENIED);
    cr_assert(tokens_new("/nowhere/tokens", &tokens, &error) == PEN_ERR_IO);
}
