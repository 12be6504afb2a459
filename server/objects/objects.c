#include "objects/objects.h"

#include "objects/credentials.h"
#include "transfer/origin.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status read_endpoint(const char *text, struct objects *out, struct error *error)
{
    struct origin origin;
    if (text == NULL || text[0] == '\0') return STATUS_OK;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '/') length--;
    (void)snprintf(out->endpoint, sizeof out->endpoint, "%.*s", (int)length, text);
    if (length < sizeof out->endpoint && origin_read(out->endpoint, &origin) && strpbrk(out->endpoint, "?#") == NULL)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "--s3-endpoint (AWS_ENDPOINT_URL_S3): must be an address like https://minio.lab:9000, without user"
                     " or query");
}

/* The region is part of the signature, and without an endpoint part of the host's name. */
static enum status read_region(const char *text, struct objects *out, struct error *error)
{
    static const char *const variables[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
    for (size_t i = 0; i < 2 && (text == NULL || text[0] == '\0'); i++) text = getenv(variables[i]);
    if (text == NULL || text[0] == '\0') text = "us-east-1";
    bool good = strlen(text) < sizeof out->region && isalnum((unsigned char)text[0]);
    for (const char *at = text; good && *at != '\0'; at++) good = isalnum((unsigned char)*at) || *at == '-';
    if (!good)
        return error_set(error, STATUS_INVALID,
                         "--s3-region (AWS_REGION): must be a name like eu-central-1, of letters, digits and \"-\"");
    (void)snprintf(out->region, sizeof out->region, "%s", text);
    return STATUS_OK;
}

static enum status read_options(const struct objects_options *options, struct objects *out, struct error *error)
{
    const enum status status = read_endpoint(options->endpoint, out, error);
    return status == STATUS_OK ? read_region(options->region, out, error) : status;
}

enum status objects_check(const struct objects_options *options, struct error *error)
{
    struct objects objects = {.credentials = NULL};
    return read_options(options, &objects, error);
}

enum status objects_new(const struct objects_options *options, struct objects **out, struct error *error)
{
    struct objects *objects = calloc(1, sizeof *objects);
    *out = NULL;
    if (objects == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for object storage");
    enum status status = read_options(options, objects, error);
    if (status == STATUS_OK) status = credentials_new(objects->region, &objects->credentials, error);
    if (status != STATUS_OK)
        objects_free(objects);
    else
        *out = objects;
    return status;
}

void objects_free(struct objects *objects)
{
    if (objects == NULL) return;
    credentials_free(objects->credentials);
    free(objects);
}
