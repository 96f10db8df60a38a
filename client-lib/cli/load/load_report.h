/*
 * load_report.h - what a run of load measured, for people and for programs.
 *
 * Threads: owner.
 */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include <cjson/cJSON.h>

#include "load_run.h"

/* Keys: penstock load --help. */
cJSON *load_report_json(const struct load_report *report);
void load_report_text(const struct load_report *report);
/* Says on stderr what the last error was, where there were some; the exit code of the run. */
int load_report_exit(const struct load_report *report);

#endif
