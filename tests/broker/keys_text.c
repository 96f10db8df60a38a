#include "keys_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char keys_path[64];

void keys_path_make(void)
{
    snprintf(keys_path, sizeof keys_path, "/tmp/penstock-keys-XXXXXX");
    int fd = mkstemp(keys_path);
    cr_assert_geq(fd, 0);
    close(fd);
}

void keys_path_remove(void)
{
    unlink(keys_path);
}

void keys_text_write(const char *text)
{
    static int turn;
    char name[80];
    snprintf(name, sizeof name, "%s.%d", keys_path,
             turn++); /* another inode: seen even within one tick of the file system's clock */
    FILE *file = fopen(name, "w");
    fputs(text, file);
    fclose(file);
    cr_assert_eq(rename(name, keys_path), 0);
}

struct keyring *keys_text_keyring(const char *text)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    keys_text_write(text);
    cr_assert_eq(keyring_new(keys_path, &keyring, &error), PEN_OK, "%s", error.text);
    return keyring;
}
