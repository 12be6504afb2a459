#include "kinds/losses.h"

#include "base/buffer.h"
#include "eval/losses_tokens.h"

#include <string.h>

const struct losses_kind losses_evaluate = {"evaluate", {"loss"}, {"token_losses.npy"}, 1};
const struct losses_kind losses_quantize = {
    "quantize", {"loss_fp", "loss_q", "kl"}, {"token_losses_fp.npy", "token_losses_q.npy", "token_kl.npy"}, 3};

const struct losses_kind *losses_of_kind(const char *kind)
{
    static const struct losses_kind *const all[] = {&losses_evaluate, &losses_quantize, NULL};
    const struct losses_kind *const *at = all;
    while (*at != NULL && strcmp((*at)->kind, kind) != 0) at++;
    return *at;
}

struct losses_part {
    const void *bytes;
    size_t size;
};

static enum status publish(struct artifacts *artifacts, const char *name, const char *media_type,
                           const struct losses_part *parts, size_t count, struct error *error)
{
    struct artifact_writer *writer = NULL;
    enum status status = artifact_open(artifacts, name, media_type, &writer, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = artifact_write(writer, parts[i].bytes, parts[i].size, error);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}

enum status losses_publish_text(struct artifacts *artifacts, const char *name, const struct buffer *text,
                                struct error *error)
{
    return publish(artifacts, name, LOSSES_MEDIA_TYPE, &(struct losses_part){text->bytes, text->length}, 1, error);
}

enum status losses_publish(struct artifacts *artifacts, const int64_t *predictions, int64_t sequences,
                           const struct losses_kind *left, const double *const *values, struct error *error)
{
    struct losses_column columns[LOSSES_TABLE_COLUMNS];
    struct buffer text = {0};
    for (size_t c = 0; c < left->count; c++) columns[c] = (struct losses_column){left->columns[c], values[c]};
    enum status status = losses_table_print(&text, predictions, sequences, columns, left->count, error);
    if (status == STATUS_OK) status = losses_publish_text(artifacts, LOSSES_ARTIFACT, &text, error);
    buffer_reset(&text);
    return status;
}

/* ---- Arrays of tokens ---- */

enum status losses_publish_tokens(struct artifacts *artifacts, const struct losses_kind *left,
                                  const float *const *values, int64_t predictions, struct error *error)
{
    char head[LOSSES_TOKENS_HEAD];
    enum status status = STATUS_OK;
    losses_tokens_head(predictions, head);
    for (size_t c = 0; c < left->count && status == STATUS_OK; c++) {
        const struct losses_part parts[] = {{head, LOSSES_TOKENS_HEAD},
                                            {values[c], (size_t)predictions * sizeof *values[c]}};
        status = publish(artifacts, left->tokens[c], "application/octet-stream", parts, 2, error);
    }
    return status;
}
