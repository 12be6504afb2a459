/* transfer_head.h: the head of an answer: its status and the headers that are used here. A text is "" and a number -1
 * when the answer does not have it. */
#ifndef TRANSFER_TRANSFER_HEAD_H
#define TRANSFER_TRANSFER_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transfer_head {
    int status;
    int64_t range_first, range_total, length;
    double wait_seconds; /* Retry-After, or the reset of RateLimit */
    double retry_at;     /* Retry-After as a moment of the server's clock, in seconds since 1970 */
    double date;         /* when it was given by the clock of the server, in seconds since 1970 */
    bool encoded;        /* the answer has a content coding that was not requested */
    char location[8192]; /* absolute */
    char next[4096];     /* the next page, from Link */
    char etag[144];      /* without W/ and quotes */
    /* The reason of a refusal: a word for programs and a line for people. */
    char code[64], message[200];
    /* Set by the hub. */
    char commit[64], linked_etag[96];
    int64_t linked_bytes;
    /* Set by object storage: the bucket's region, checksums in base64, how they were computed, the encryption. */
    char region[64], sha256[64], crc64nvme[24], checksum_type[24], encryption[24];
};

void transfer_head_clear(struct transfer_head *head);

/* Reads one line of an answer, with or without its end. A new status line begins a new head (100 Continue comes before
 * the real one). */
void transfer_head_line(struct transfer_head *head, const char *bytes, size_t length);

#endif
