/*
 * preview_record.h - keeps a job's picture and its answer for the dashboard, where `--http-preview` asks for it.
 * Threads: owner.
 */
#ifndef PREVIEW_RECORD_H
#define PREVIEW_RECORD_H

#include "broker_state.h"

/*
 * A client's job ends with this reply; call it while the job has its request. Does nothing unless the model takes files
 * of pictures, the first file of the job is one, and the model's answer is a JSON text (output `answer`).
 */
void record_preview(struct broker *broker, const struct job *job, const struct shared_message *reply);

#endif
