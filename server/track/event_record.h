/* event_record.h: TensorBoard's event files: records (TFRecord: u64 length, its CRC, the message, its CRC) of protocol
 * buffers (tensorflow/core/util/event.proto), with only the fields that scalars need. */
#ifndef TRACK_EVENT_RECORD_H
#define TRACK_EVENT_RECORD_H

#include "base/buffer.h"

#include <stdint.h>

/* The first record of a file. */
void event_record_version(struct buffer *out, double wall_time);

/* A record that says that the run starts again at `step`: readers drop their later points. */
void event_record_start(struct buffer *out, double wall_time, int64_t step);

/* A record of the scalars of one step: begin, add each, end. Readers keep floats, so values are rounded to float32. */
struct event_scalars {
    struct buffer summary;
};
void event_scalars_add(struct event_scalars *scalars, const char *tag, double value);
/* Appends the record and empties `scalars`. A failure is in out->status. */
void event_record_scalars(struct buffer *out, double wall_time, int64_t step, struct event_scalars *scalars);

#endif
