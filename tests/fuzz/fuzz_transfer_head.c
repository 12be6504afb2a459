/* The head of an answer, line by line. What is taken of it is text within its field; numbers are -1 or counts. */
#include "fuzz.h"

#include "transfer/transfer_head.h"

#include <string.h>

static void check_text(const char *text, size_t size)
{
    fuzz_require(memchr(text, '\0', size) != NULL && strpbrk(text, "\r\n") == NULL);
}

static void check(const struct transfer_head *head)
{
    fuzz_require(head->range_first >= -1 && head->range_total >= -1);
    fuzz_require(head->length >= -1 && head->linked_bytes >= -1 && head->wait_seconds >= -1);
    fuzz_require(head->status >= 0 && head->status <= 999);
    check_text(head->next, sizeof head->next);
    check_text(head->etag, sizeof head->etag);
    check_text(head->code, sizeof head->code);
    check_text(head->message, sizeof head->message);
    check_text(head->commit, sizeof head->commit);
    check_text(head->linked_etag, sizeof head->linked_etag);
    check_text(head->region, sizeof head->region);
    check_text(head->sha256, sizeof head->sha256);
    check_text(head->crc64nvme, sizeof head->crc64nvme);
    check_text(head->encryption, sizeof head->encryption);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct transfer_head *head = calloc(1, sizeof *head);
    fuzz_require(head != NULL);
    transfer_head_clear(head);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - bytes) + 1 - at : size - at;
        transfer_head_line(head, (const char *)bytes + at, length);
        check(head);
        at += length;
    }
    free(head);
    return 0;
}
