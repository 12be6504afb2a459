#include "kinds/losses.h"

#include "base/buffer.h"

#include <inttypes.h>
#include <math.h>

/* printf's words for what is not finite differ: a NaN may have a sign. */
static void number(struct buffer *text, double value)
{
    if (isnan(value))
        buffer_puts(text, ",nan");
    else
        buffer_printf(text, ",%.17g", value);
}

static enum status table(struct buffer *text, const int64_t *predictions, int64_t sequences,
                         const struct losses_column *columns, size_t column_count, struct error *error)
{
    buffer_puts(text, "sequence,tokens");
    for (size_t c = 0; c < column_count; c++) buffer_printf(text, ",%s", columns[c].name);
    buffer_puts(text, "\n");
    for (int64_t s = 0; s < sequences; s++) {
        buffer_printf(text, "%" PRId64 ",%" PRId64, s, predictions[s] + 1);
        for (size_t c = 0; c < column_count; c++) number(text, columns[c].values[s]);
        buffer_puts(text, "\n");
    }
    return buffer_status(text, "the losses of sequences", error);
}

enum status losses_publish(struct artifacts *artifacts, const int64_t *predictions, int64_t sequences,
                           const struct losses_column *columns, size_t column_count, struct error *error)
{
    struct buffer text = {0};
    struct artifact_writer *writer = NULL;
    enum status status = table(&text, predictions, sequences, columns, column_count, error);
    if (status == STATUS_OK)
        status = artifact_open(artifacts, LOSSES_ARTIFACT, "text/csv; charset=utf-8", &writer, error);
    if (status == STATUS_OK) status = artifact_write(writer, text.bytes, text.length, error);
    buffer_reset(&text);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}
