#include "kinds/protocol.h"

#include "inputs/hash.h"

#include <string.h>

enum status protocol_id(const struct sequences *evaluation, const char *precision, char out[PROTOCOL_TEXT],
                        struct error *error)
{
    static const char version[] =
        "next-token loss 1"; /* mean over the T - 1 predictions of a sequence, all sequences alike */
    struct hash *hash = NULL;
    char digits[HASH_TEXT];
    enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    hash_add(hash, version, sizeof version);
    hash_add(hash, precision, strlen(precision) + 1);
    hash_add(hash, evaluation->starts, (size_t)(evaluation->count + 1) * sizeof *evaluation->starts);
    hash_add(hash, evaluation->tokens, (size_t)evaluation->starts[evaluation->count] * sizeof *evaluation->tokens);
    if ((status = hash_finish(hash, digits, error)) != STATUS_OK) return status;
    memcpy(out, digits, PROTOCOL_TEXT - 1);
    out[PROTOCOL_TEXT - 1] = '\0';
    return STATUS_OK;
}
