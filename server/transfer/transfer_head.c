#include "transfer/transfer_head.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { LINE_BYTES = 8192 };

static int64_t number(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return -1;
    const long long value = strtoll(text, &end, 10);
    return value >= 0 && value < INT64_MAX ? (int64_t)value : -1;
}

static void take_text(char *out, size_t size, const char *value)
{
    size_t used = 0;
    for (; *value != '\0' && used + 1 < size; value++)
        if ((unsigned char)*value >= 0x20 && (unsigned char)*value < 0x7f) out[used++] = *value;
    out[used] = '\0';
}

/* Without W/ and quotes. */
static void take_etag(char *out, size_t size, const char *value)
{
    if (strncmp(value, "W/", 2) == 0) value += 2;
    if (*value == '"') value++;
    (void)snprintf(out, size, "%.*s", (int)strcspn(value, "\""), value);
}

/* "bytes 0-1023/4096" */
static void take_range(struct transfer_head *head, const char *value)
{
    const char *slash = strchr(value, '/');
    if (strncasecmp(value, "bytes ", 6) != 0 || slash == NULL) return;
    head->range_first = number(value + 6);
    head->range_total = number(slash + 1);
}

/* <https://…?cursor=…>; rel="next" */
static void take_link(struct transfer_head *head, const char *value)
{
    const char *end = strchr(value, '>');
    if (*value != '<' || end == NULL || strstr(end, "rel=\"next\"") == NULL) return;
    (void)snprintf(head->next, sizeof head->next, "%.*s", (int)(end - value - 1), value + 1);
}

/* "api";r=0;t=55: the number of requests left, and the seconds until more are allowed. Only who has none left waits. */
static void take_limit(struct transfer_head *head, const char *value)
{
    const char *left = strstr(value, ";r="), *reset = strstr(value, ";t=");
    if (left != NULL && number(left + 3) > 0) return;
    if (reset != NULL && head->wait_seconds < 0) head->wait_seconds = (double)number(reset + 3);
}

/* A moment to wait for is one of the server's clock, which this machine's may be far from. */
static void wait_until_retry(struct transfer_head *head)
{
    const double now = head->date >= 0 ? head->date : (double)time(NULL);
    if (head->retry_at >= 0) head->wait_seconds = head->retry_at > now ? head->retry_at - now : 0;
}

static void take_retry(struct transfer_head *head, const char *value)
{
    const int64_t seconds = number(value);
    if (seconds >= 0) head->wait_seconds = (double)seconds;
    head->retry_at = seconds < 0 ? (double)curl_getdate(value, NULL) : -1;
    wait_until_retry(head);
}

static void take_date(struct transfer_head *head, const char *value)
{
    head->date = (double)curl_getdate(value, NULL);
    wait_until_retry(head);
}

static void take_coding(struct transfer_head *head, const char *value)
{
    head->encoded = strcasecmp(value, "identity") != 0 && strcasecmp(value, "aws-chunked") != 0;
}

/* How a header's value is stored: as a text, an entity tag, a number at its offset, or by its own function. */
enum form { FORM_TEXT, FORM_ETAG, FORM_NUMBER, FORM_OWN };

#define TEXT(name, field)                                                         \
    {                                                                             \
        name, FORM_TEXT, offsetof(struct transfer_head, field), SIZE(field), NULL \
    }
#define ETAG(name, field)                                                         \
    {                                                                             \
        name, FORM_ETAG, offsetof(struct transfer_head, field), SIZE(field), NULL \
    }
#define NUMBER(name, field)                                               \
    {                                                                     \
        name, FORM_NUMBER, offsetof(struct transfer_head, field), 0, NULL \
    }
#define OWN(name, take)            \
    {                              \
        name, FORM_OWN, 0, 0, take \
    }
#define SIZE(field) sizeof((struct transfer_head *)0)->field

static const struct row {
    const char *name;
    enum form form;
    size_t offset, size;
    void (*take)(struct transfer_head *head, const char *value);
} rows[] = {
    ETAG("etag", etag),
    NUMBER("content-length", length),
    OWN("content-range", take_range),
    OWN("content-encoding", take_coding),
    OWN("link", take_link),
    OWN("ratelimit", take_limit),
    OWN("retry-after", take_retry),
    OWN("date", take_date),
    TEXT("x-repo-commit", commit),
    ETAG("x-linked-etag", linked_etag),
    NUMBER("x-linked-size", linked_bytes),
    TEXT("x-error-code", code),
    TEXT("x-error-message", message),
    TEXT("x-amz-bucket-region", region),
    TEXT("x-amz-checksum-sha256", sha256),
    TEXT("x-amz-checksum-crc64nvme", crc64nvme),
    TEXT("x-amz-checksum-type", checksum_type),
    TEXT("x-amz-server-side-encryption", encryption),
};

static void take_header(struct transfer_head *head, const char *name, const char *value)
{
    char *base = (char *)head;
    const struct row *row = rows, *end = rows + sizeof rows / sizeof rows[0];
    while (row < end && strcasecmp(row->name, name) != 0) row++;
    if (row == end) return;
    if (row->form == FORM_TEXT) take_text(base + row->offset, row->size, value);
    if (row->form == FORM_ETAG) take_etag(base + row->offset, row->size, value);
    if (row->form == FORM_NUMBER) {
        const int64_t found = number(value);
        memcpy(base + row->offset, &found, sizeof found);
    }
    if (row->form == FORM_OWN) row->take(head, value);
}

void transfer_head_clear(struct transfer_head *head)
{
    *head = (struct transfer_head){.linked_bytes = -1,
                                   .range_first = -1,
                                   .range_total = -1,
                                   .length = -1,
                                   .wait_seconds = -1,
                                   .date = -1,
                                   .retry_at = -1};
}

void transfer_head_line(struct transfer_head *head, const char *bytes, size_t length)
{
    char line[LINE_BYTES];
    if (length >= sizeof line) return;
    memcpy(line, bytes, length);
    line[length] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        const char *space = strchr(line, ' ');
        transfer_head_clear(head);
        const int64_t status = space != NULL ? number(space + 1) : 0;
        head->status = status >= 0 && status <= 999 ? (int)status : 0;
        return;
    }
    char *colon = strchr(line, ':');
    if (colon == NULL) return;
    *colon = '\0';
    take_header(head, line, colon + 1 + strspn(colon + 1, " \t"));
}
