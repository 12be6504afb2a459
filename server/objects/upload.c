#include "objects/upload.h"

#include "base/hex.h"
#include "objects/answer_xml.h"
#include "transfer/escape.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MOST = 1 << 20, ID_BYTES = 1024, COMPLETIONS = 3, MD5_BYTES = 16, ETAG_BYTES = 48 };
#define CONTENT_TYPE "Content-Type: application/octet-stream"

struct upload {
    const struct bucket *bucket;
    const struct asking *asking;
    const char *key;
    int fd;
    int64_t bytes, part_bytes;
    char *part;        /* owned: [part_bytes] */
    char id[ID_BYTES]; /* of a multipart upload */
    char escaped[3 * ID_BYTES];
    char (*etags)[144]; /* owned: of the parts */
    int parts;
    struct transfer_head *head; /* owned */
    struct buffer answer;
};

static enum status ask(struct upload *upload, enum transfer_method method, const char *query, const void *body,
                       size_t body_bytes, struct error *error)
{
    static const char *const headers[] = {CONTENT_TYPE, NULL};
    const bool sends = method == TRANSFER_PUT || method == TRANSFER_POST;
    const struct bucket_request request = {.method = method,
                                           .key = upload->key,
                                           .query = query,
                                           .headers = sends ? headers : NULL,
                                           .body = body,
                                           .body_bytes = body_bytes,
                                           .what = upload->key};
    return bucket_ask(upload->bucket, upload->asking, &request, upload->head, &upload->answer, error);
}

/* ---- parts ---- */

static enum status read_part(struct upload *upload, int64_t at, size_t length, struct error *error)
{
    for (size_t done = 0; done < length;) {
        const ssize_t more = pread(upload->fd, upload->part + done, length - done, at + (int64_t)done);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return error_set_errno(error, "reading what is uploaded");
        if (more == 0) return error_set(error, STATUS_IO, "a file that is uploaded has become shorter");
        done += (size_t)more;
    }
    return STATUS_OK;
}

static size_t part_length(const struct upload *upload, int index)
{
    const int64_t left = upload->bytes - (int64_t)index * upload->part_bytes;
    return (size_t)(left < upload->part_bytes ? left : upload->part_bytes);
}

static enum status take_id(void *context, const char *path, const char *text, struct error *error)
{
    struct upload *upload = context;
    (void)error;
    if (text != NULL && strcmp(path, "InitiateMultipartUploadResult/UploadId") == 0 && strlen(text) < ID_BYTES)
        (void)snprintf(upload->id, sizeof upload->id, "%s", text);
    return STATUS_OK;
}

static enum status read_answer(struct upload *upload, answer_xml_visitor *visit, struct error *error)
{
    return answer_xml_read(upload->answer.bytes != NULL ? upload->answer.bytes : "", upload->answer.length, visit,
                           upload, error);
}

static enum status begin(struct upload *upload, struct error *error)
{
    enum status status = ask(upload, TRANSFER_POST, "uploads=", NULL, 0, error);
    if (status == STATUS_OK) status = read_answer(upload, take_id, error);
    if (status == STATUS_OK &&
        (upload->id[0] == '\0' || !escape_text(upload->id, false, upload->escaped, sizeof upload->escaped)))
        status = error_set(error, STATUS_CORRUPT, "object storage gives an upload no name");
    return status;
}

static enum status send_parts(struct upload *upload, struct error *error)
{
    char query[sizeof upload->escaped + 64];
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < upload->parts; i++) {
        const size_t length = part_length(upload, i);
        (void)snprintf(query, sizeof query, "partNumber=%d&uploadId=%s", i + 1, upload->escaped);
        status = read_part(upload, (int64_t)i * upload->part_bytes, length, error);
        if (status == STATUS_OK) status = ask(upload, TRANSFER_PUT, query, upload->part, length, error);
        if (status == STATUS_OK && upload->head->etag[0] == '\0')
            status = error_set(error, STATUS_CORRUPT, "object storage gives a part no ETag");
        (void)snprintf(upload->etags[i], sizeof upload->etags[i], "%s", upload->head->etag);
    }
    return status;
}

/* ---- what is there ---- */

/* The ETag that the server gives these bytes: their MD5, or the MD5 of the parts' MD5s. "": MD5 may not be computed
 * here. Objects encrypted with a key of a key service have another ETag. */
static enum status etag_of(struct upload *upload, char out[ETAG_BYTES], struct error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *all = EVP_MD_CTX_new();
    bool good = all != NULL && EVP_DigestInit_ex(all, EVP_md5(), NULL) == 1;
    enum status status = STATUS_OK;
    for (int i = 0; good && status == STATUS_OK && i < upload->parts; i++) {
        const size_t length = part_length(upload, i);
        status = read_part(upload, (int64_t)i * upload->part_bytes, length, error);
        if (status == STATUS_OK && upload->parts > 1)
            good = EVP_Digest(upload->part, length, digest, NULL, EVP_md5(), NULL) == 1 &&
                   EVP_DigestUpdate(all, digest, MD5_BYTES) == 1;
        else if (status == STATUS_OK)
            good = EVP_DigestUpdate(all, upload->part, length) == 1;
    }
    good = good && status == STATUS_OK && EVP_DigestFinal_ex(all, digest, NULL) == 1;
    EVP_MD_CTX_free(all);
    out[0] = '\0';
    if (good) hex_write(digest, MD5_BYTES, out);
    if (good && upload->parts > 1)
        (void)snprintf(out + 2 * MD5_BYTES, ETAG_BYTES - 2 * MD5_BYTES, "-%d", upload->parts);
    return status;
}

/* *there: an object of this key and size exists; *same: it has these bytes. A caller without the right to list gets a
 * refusal for a missing object. Any other refusal comes again with the next request, whose answer says why. */
static enum status look(struct upload *upload, bool *there, bool *same, struct error *error)
{
    char etag[ETAG_BYTES];
    enum status status = ask(upload, TRANSFER_HEAD, "", NULL, 0, error);
    *there = status == STATUS_OK && upload->head->length == upload->bytes;
    *same = false;
    if (*there && (status = etag_of(upload, etag, error)) == STATUS_OK)
        *same = etag[0] != '\0' && strcmp(upload->head->etag, etag) == 0;
    return status == STATUS_NOT_FOUND || status == STATUS_FORBIDDEN ? STATUS_OK : status;
}

/* ---- the end ---- */

static enum status take_completion(void *context, const char *path, const char *text, struct error *error)
{
    (void)context;
    if (strcmp(path, "Error/Code") != 0) return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE, "object storage does not put an upload together: %.100s",
                     text != NULL ? text : "");
}

/* The body may report a failure in spite of the status, because the server starts the answer before it knows. After a
 * lost answer the upload is unknown to the server, and the object exists. */
static enum status complete(struct upload *upload, struct error *error)
{
    struct buffer body = {.limit = ANSWER_MOST};
    char query[sizeof upload->escaped + 16];
    bool there = false, same = false;
    (void)snprintf(query, sizeof query, "uploadId=%s", upload->escaped);
    buffer_puts(&body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (int i = 0; i < upload->parts; i++)
        buffer_printf(&body, "<Part><PartNumber>%d</PartNumber><ETag>\"%s\"</ETag></Part>", i + 1, upload->etags[i]);
    buffer_puts(&body, "</CompleteMultipartUpload>");
    enum status status = buffer_status(&body, "the list of parts", error);
    for (int i = 0; status == STATUS_OK && i < COMPLETIONS; i++) {
        status = ask(upload, TRANSFER_POST, query, body.bytes, body.length, error);
        if (status == STATUS_OK) status = read_answer(upload, take_completion, error);
        if (status != STATUS_UNAVAILABLE || i + 1 == COMPLETIONS) break;
        status = STATUS_OK;
    }
    buffer_reset(&body);
    if (status != STATUS_NOT_FOUND) return status;
    const struct error cause = *error;
    status = look(upload, &there, &same, error);
    /* when the ETag says nothing: the parts were just accepted with their hashes */
    if (there && strncmp(upload->head->encryption, "aws:kms", 7) == 0) same = true;
    if (status == STATUS_OK && !same) *error = cause;
    return status == STATUS_OK && !same ? STATUS_NOT_FOUND : status;
}

static void give_up(struct upload *upload)
{
    char query[sizeof upload->escaped + 16];
    struct error ignored;
    const struct asking patient = {.seconds = upload->asking->seconds, .tries = upload->asking->tries};
    if (upload->id[0] == '\0') return;
    (void)snprintf(query, sizeof query, "uploadId=%s", upload->escaped);
    upload->asking = &patient; /* also when the monitor says to stop */
    if (ask(upload, TRANSFER_DELETE, query, NULL, 0, &ignored) != STATUS_OK) return; /* the bucket's rules remove it */
}

static enum status send_in_parts(struct upload *upload, struct error *error)
{
    enum status status = begin(upload, error);
    if (status == STATUS_OK) status = send_parts(upload, error);
    if (status == STATUS_OK) status = complete(upload, error);
    if (status != STATUS_OK) give_up(upload);
    return status;
}

static enum status send_whole(struct upload *upload, struct error *error)
{
    const enum status status = read_part(upload, 0, (size_t)upload->bytes, error);
    return status == STATUS_OK ? ask(upload, TRANSFER_PUT, "", upload->part, (size_t)upload->bytes, error) : status;
}

enum status upload_file(const struct bucket *bucket, const struct asking *asking, const char *key, int fd,
                        int64_t bytes, struct error *error)
{
    bool there = false, same = false;
    struct upload upload = {.bucket = bucket,
                            .asking = asking,
                            .key = key,
                            .fd = fd,
                            .bytes = bytes,
                            .part_bytes = UPLOAD_PART,
                            .answer = {.limit = ANSWER_MOST}};
    while (bytes > upload.part_bytes * UPLOAD_PARTS_MOST) upload.part_bytes *= 2;
    upload.parts = (int)((bytes + upload.part_bytes - 1) / upload.part_bytes);
    upload.head = malloc(sizeof *upload.head);
    upload.etags = calloc((size_t)upload.parts + 1, sizeof *upload.etags);
    upload.part = malloc((size_t)(bytes < upload.part_bytes ? bytes : upload.part_bytes) + 1);
    enum status status = upload.head == NULL || upload.etags == NULL || upload.part == NULL
                             ? error_no_memory(error, "an upload")
                             : look(&upload, &there, &same, error);
    if (status == STATUS_OK && !same)
        status = upload.parts > 1 ? send_in_parts(&upload, error) : send_whole(&upload, error);
    buffer_reset(&upload.answer);
    free(upload.part);
    free(upload.etags);
    free(upload.head);
    return status;
}
