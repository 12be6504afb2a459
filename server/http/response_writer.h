/* response_writer.h: an answer that is written in chunks: kept in memory while it is small, then in a nameless file.
 * After an error all further writes are ignored; response_writer_answer returns it. */
#ifndef HTTP_RESPONSE_WRITER_H
#define HTTP_RESPONSE_WRITER_H

#include "base/buffer.h"
#include "http/response.h"

struct spill;

struct response_writer {
    const char *directory; /* lent: the directory of the file */
    struct buffer waiting; /* bytes that are not in the file yet */
    struct spill *file;    /* owned; NULL: not needed so far */
    int64_t in_file;
    struct error error; /* the first one */
};

void response_writer_init(struct response_writer *writer, const char *directory);
void response_writer_add(struct response_writer *writer, const char *bytes, size_t length);

/* Answers 200 with all that was written. STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY, also of the writes before. */
MUST_CHECK enum status response_writer_answer(struct response_writer *writer, struct response *response,
                                              const char *content_type, struct error *error);
void response_writer_reset(struct response_writer *writer);

#endif
