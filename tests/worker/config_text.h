/*
 * config_text.h - texts of config.json that are read, and those that are refused.
 *
 * Threads: owner. Failures end or fail the test with a message.
 */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include "config.h"

/* Reads the text into a fresh config; the caller ends it with config_fini. */
enum pen_status config_text_parse(const char *text, struct config *config, struct pen_error *error);
/* One bad text, its status, and what its sentence must contain. */
void config_text_refuses(const char *text, enum pen_status status, const char *part);

#endif
