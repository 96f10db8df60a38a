/*
 * keys_text.h - a list of keys in a file of its own, for the suites that read one.
 *
 * Threads: one test's.
 */
#ifndef KEYS_TEXT_H
#define KEYS_TEXT_H

#include "keyring.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define W "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define ALICE  A " alice submit\n"
#define WORKER W " w1 worker\n"

extern char keys_path[64];

void keys_path_make(void);
void keys_path_remove(void);
void keys_text_write(const char *text); /* replaces the file: another inode each time */
struct keyring *keys_text_keyring(const char *text);

#endif
