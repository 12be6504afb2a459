#include "http/response_writer.h"

#include "files/spill.h"

enum { WAITING_MOST = 256 << 10 };

void response_writer_init(struct response_writer *writer, const char *directory)
{
    *writer = (struct response_writer){.directory = directory};
    buffer_init(&writer->waiting, 0);
}

/* Moves the collected bytes to the file. */
static void flush(struct response_writer *writer)
{
    struct buffer *waiting = &writer->waiting;
    enum status status = buffer_status(waiting, "the answer", &writer->error);
    if (status == STATUS_OK && writer->file == NULL)
        status = spill_open(writer->directory, 0, "an answer", &writer->file, &writer->error);
    if (status == STATUS_OK)
        status = spill_write(writer->file, writer->in_file, waiting->bytes, waiting->length, &writer->error);
    if (status == STATUS_OK) writer->in_file += (int64_t)waiting->length;
    waiting->length = 0;
}

void response_writer_add(struct response_writer *writer, const char *bytes, size_t length)
{
    if (writer->error.status != STATUS_OK) return;
    buffer_append(&writer->waiting, bytes, length);
    if (writer->waiting.length >= WAITING_MOST) flush(writer);
}

enum status response_writer_answer(struct response_writer *writer, struct response *response, const char *content_type,
                                   struct error *error)
{
    struct buffer *waiting = &writer->waiting;
    size_t length = 0;
    int descriptor = -1;
    if (writer->file != NULL && waiting->length > 0) flush(writer);
    if (writer->error.status == STATUS_OK) {
        const enum status status = buffer_status(waiting, "the answer", error);
        if (status != STATUS_OK) return status;
    } else {
        *error = writer->error;
        return error->status;
    }
    if (writer->file == NULL) {
        char *bytes = buffer_take(waiting, &length);
        return response_take(response, 200, content_type, bytes, length, error);
    }
    const enum status status = spill_descriptor(writer->file, &descriptor, error);
    return status == STATUS_OK ? response_file(response, content_type, descriptor, writer->in_file, NULL, error)
                               : status;
}

void response_writer_reset(struct response_writer *writer)
{
    buffer_reset(&writer->waiting);
    spill_close(writer->file);
    writer->file = NULL;
}
