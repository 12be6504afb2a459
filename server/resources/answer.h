/* answer.h: what handlers have in common: bodies held to tables, pages of lists. */
#ifndef RESOURCES_ANSWER_H
#define RESOURCES_ANSWER_H

#include "http/request.h"
#include "http/response.h"
#include "resources/list_view.h"
#include "schema/schema.h"
#include "store/store.h"

/* Fills a struct from the request's body by `table` (schema_fill: defaults appear in the body); faults go into the
 * response. */
MUST_CHECK enum status answer_body(const struct request *request, struct response *response, const struct param *table,
                                   size_t size, struct schema_filled *out, struct error *error);

/* The body of a PATCH, held to `table`: *changes (the caller's) has the fields that were given alone, in the form that
 * the table gives them (1000 for 1000.0). */
MUST_CHECK enum status answer_changes(const struct request *request, struct response *response,
                                      const struct param *table, size_t size, json_t **changes, struct error *error);

/* Puts the faults into the response's problem document. STATUS_OK when there are none. */
MUST_CHECK enum status answer_faults(struct response *response, const struct faults *faults, struct error *error);

/* Names stand in paths and in TRAJECTORY/NAME: 1 to 200 bytes without "/" and control characters. */
MUST_CHECK enum status answer_check_name(const char *name, const char *pointer, struct error *error);

/* The value of the query field `field` as the name of a measured number (kinds/metrics.h). */
MUST_CHECK enum status answer_check_metric(const char *name, const char *field, struct error *error);

/* The query field `field`: true or false; false when it is absent. */
MUST_CHECK enum status answer_query_boolean(const struct request *request, const char *field, bool *out,
                                            struct error *error);

/* tag=KEY or tag=KEY:VALUE, as often as needed: [{"key", "value" or null}], NULL without any. *out is NULL before, and
 * the caller's afterwards, also on failure. */
MUST_CHECK enum status answer_tags(const struct request *request, json_t **out, struct error *error);

/* The query field `field`, a day or a time of UTC to the second, in milliseconds since 1970. */
MUST_CHECK enum status answer_time(const struct request *request, const char *field, int64_t fallback, int64_t *out,
                                   struct error *error);

/* name, tag, step_from, step_to, created_from and created_to of a list, as far as its route allows them. *out lends
 * *tags, which the caller owns, also on failure. */
MUST_CHECK enum status answer_filter(const struct request *request, struct list_filter *out, json_t **tags,
                                     struct error *error);

/* STATUS_NOT_ACCEPTABLE when the client takes no JSON, which is the only form of most lists. */
MUST_CHECK enum status answer_accepts(const struct request *request, struct error *error);

/* limit, cursor and sort of a list, for a client that takes JSON; answer_page_of: of a list with other forms too. */
MUST_CHECK enum status answer_page(const struct request *request, struct page *out, struct error *error);
MUST_CHECK enum status answer_page_of(const struct request *request, struct page *out, struct error *error);

/* Answers 200 with a page of the store (takes it, also on failure): its cursor becomes an address, in "next" and in a
 * Link header. */
MUST_CHECK enum status answer_list(struct response *response, const struct request *request, json_t *page,
                                   struct error *error);

/* The same of what the view shows. */
MUST_CHECK enum status answer_view(struct response *response, const struct request *request,
                                   const struct list_view *view, json_t *page, struct error *error);

/* The first half of answer_list, for an answer in another form: the address and the Link header, where there is a next
 * page. */
MUST_CHECK enum status answer_next(struct response *response, const struct request *request, json_t *page,
                                   struct error *error);

/* Answers with `document` (taken), and a Location made of `prefix` and its id. */
MUST_CHECK enum status answer_made(struct response *response, int http_status, const char *prefix, json_t *document,
                                   struct error *error);

/* After a change of the queue that came to `status`: wakes who waits for one and answers 202 with `document` (taken),
 * or gives the status back. */
MUST_CHECK enum status answer_changed(struct response *response, struct connection *connection, enum status status,
                                      json_t *document, struct error *error);

/* After a deletion that came to `status`: wakes who waits for a change and answers 204, or gives the status back. */
MUST_CHECK enum status answer_deleted(struct response *response, struct connection *connection, enum status status);

#endif
