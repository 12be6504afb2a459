#include "kinds/protocol.h"

#include "inputs/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Takes the hash. */
static enum status id_finish(struct hash *hash, char out[PROTOCOL_TEXT], struct error *error)
{
    char digits[HASH_TEXT];
    const enum status status = hash_finish(hash, digits, error);
    if (status != STATUS_OK) return status;
    memcpy(out, digits, PROTOCOL_TEXT - 1);
    out[PROTOCOL_TEXT - 1] = '\0';
    return STATUS_OK;
}

/* The id is a hash of `version`, `detail` and the sequences. */
static enum status id_of(const char *version, const char *detail, const struct sequences *sequences,
                         char out[PROTOCOL_TEXT], struct error *error)
{
    struct hash *hash = NULL;
    const enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    hash_add(hash, version, strlen(version) + 1);
    hash_add(hash, detail, strlen(detail) + 1);
    hash_add(hash, sequences->starts, (size_t)(sequences->count + 1) * sizeof *sequences->starts);
    hash_add(hash, sequences->tokens, (size_t)sequences->starts[sequences->count] * sizeof *sequences->tokens);
    return id_finish(hash, out, error);
}

enum status protocol_detailed(const char *id, const char *detail, char out[PROTOCOL_TEXT], struct error *error)
{
    struct hash *hash = NULL;
    const enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    hash_add(hash, id, strlen(id) + 1);
    hash_add(hash, detail, strlen(detail) + 1);
    return id_finish(hash, out, error);
}

enum status protocol_id(const struct sequences *evaluation, const char *precision, char out[PROTOCOL_TEXT],
                        struct error *error)
{
    /* the mean over the T - 1 predictions of a sequence; all sequences have the same weight */
    return id_of("next-token loss 1", precision, evaluation, out, error);
}

enum status protocol_calibrated(const struct quantize_method *method, const struct sequences *calibration,
                                int64_t draws, const char *dataset, struct protocol_calibration *out,
                                struct error *error)
{
    char number[24], in_draws[40] = "";
    *out = (struct protocol_calibration){0};
    if (calibration == NULL || calibration->count == 0 || !quantize_method_reads_calibration(method)) return STATUS_OK;
    (void)snprintf(number, sizeof number, "%" PRId64, draws);
    if (draws > 1) (void)snprintf(in_draws, sizeof in_draws, " in %" PRId64 " draws", draws);
    (void)snprintf(out->text, sizeof out->text, "%s: %" PRId64 " sequence%s, %" PRId64 " tokens%s", dataset,
                   calibration->count, calibration->count == 1 ? "" : "s", calibration->starts[calibration->count],
                   in_draws);
    return id_of("calibration 1", number, calibration, out->id, error);
}
