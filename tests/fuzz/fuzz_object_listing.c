/* A page of a list of objects, and a refusal, in XML. Keys that are accepted are text, lie below the prefix and are no
 * directories; what a refusal says in words for programs is ASCII. */
#include "fuzz.h"

#include "base/utf8.h"
#include "objects/listing.c"

/* Stands in for server/objects/bucket.c: nobody is asked. */
enum status bucket_ask(const struct bucket *bucket, const struct asking *asking, const struct bucket_request *request,
                       struct transfer_head *head, struct buffer *body, struct error *error)
{
    (void)bucket, (void)asking, (void)request, (void)head, (void)body;
    return error_set(error, STATUS_UNAVAILABLE, "no server");
}

static void check_listing(const char *text, size_t size, bool encoded)
{
    struct listing listing = {0};
    struct error error;
    struct page *page = calloc(1, sizeof *page);
    fuzz_require(page != NULL);
    *page = (struct page){.listing = &listing, .prefix = "run/", .encoded = encoded};
    const struct buffer body = {.bytes = (char *)(uintptr_t)text, .length = size};
    const enum status status = read_page(page, &body, &error);
    fuzz_require(status == STATUS_OK || (status == STATUS_CORRUPT && error.detail[0]));
    for (size_t i = 0; i < listing.count; i++) {
        const char *name = listing.items[i].name;
        const size_t length = strlen(name);
        fuzz_require(length > 0 && length < OBJECTS_PLACE_KEY && name[length - 1] != '/');
        fuzz_require(utf8_check(name, length) == length);
        fuzz_require(listing.items[i].bytes >= 0 && listing.items[i].etag[0] != '\0');
    }
    listing_reset(&listing);
    free(page);
}

static void check_word(const char *word)
{
    for (; *word != '\0'; word++) fuzz_require(*word >= ' ' && *word <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct transfer_head *head = malloc(sizeof *head);
    fuzz_require(head != NULL);
    check_listing((const char *)bytes, size, true);
    check_listing((const char *)bytes, size, false);
    transfer_head_clear(head);
    answer_xml_refusal((const char *)bytes, size, head);
    check_word(head->code);
    check_word(head->region);
    free(head);
    return 0;
}
