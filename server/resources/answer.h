/* answer.h: common code of handlers: bodies checked against tables, pages of lists. */
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

/* Refuses a body that has fields: nobody reads them, and {"dry_run": true} would do what it must not. */
MUST_CHECK enum status answer_no_fields(const struct request *request, struct response *response, struct error *error);

/* Checks the body of a PATCH against `table`. *changes (the caller's) has only the fields that were given, in the
 * table's form (1000 for 1000.0). */
MUST_CHECK enum status answer_changes(const struct request *request, struct response *response,
                                      const struct param *table, size_t size, json_t **changes, struct error *error);

/* Puts the faults into the response's problem document. STATUS_OK when there are none. */
MUST_CHECK enum status answer_faults(struct response *response, const struct faults *faults, struct error *error);

/* Checks a name, which becomes part of paths and of TRAJECTORY/NAME: 1 to 200 bytes without "/" and control
 * characters. `pointer` is "" for a name that stands in the address. */
MUST_CHECK enum status answer_check_name(const char *name, const char *pointer, struct error *error);

/* Checks that the value of the query field `field` is the name of a metric (kinds/metrics.h). */
MUST_CHECK enum status answer_check_metric(const char *name, const char *field, struct error *error);

/* Reads the query field `field`: true or false; false when it is absent. */
MUST_CHECK enum status answer_query_boolean(const struct request *request, const char *field, bool *out,
                                            struct error *error);

/* Reads tag=KEY or tag=KEY:VALUE, which may be repeated: [{"key", "value" or null}], NULL without any. *out must be
 * NULL before; the caller owns it afterwards, also on failure. */
MUST_CHECK enum status answer_tags(const struct request *request, json_t **out, struct error *error);

/* Reads the query field `field`, a day of UTC or a time of RFC 3339, as milliseconds since 1970. */
MUST_CHECK enum status answer_time(const struct request *request, const char *field, int64_t fallback, int64_t *out,
                                   struct error *error);

/* Reads name, tag, step_from, step_to, created_from and created_to of a list, as far as its route allows them. *out
 * lends *tags, which the caller owns, also on failure. */
MUST_CHECK enum status answer_filter(const struct request *request, struct list_filter *out, json_t **tags,
                                     struct error *error);

/* The form of an answer that has several: the query field "format", one of `names`, goes before the header Accept,
 * which is held to `types`; both lists end with NULL. *out is the place in them. STATUS_NOT_ACCEPTABLE. */
MUST_CHECK enum status answer_form(const struct request *request, const char *const *names, const char *const *types,
                                   int *out, struct error *error);
extern const char *const answer_table_names[], *const answer_table_types[]; /* json, csv */

/* STATUS_NOT_ACCEPTABLE when the client does not accept JSON, the only form of most lists. */
MUST_CHECK enum status answer_accepts(const struct request *request, struct error *error);

/* Reads limit, cursor and sort of a list, for a client that accepts JSON; answer_page_of is for lists with other forms
 * too. */
MUST_CHECK enum status answer_page(const struct request *request, struct page *out, struct error *error);
MUST_CHECK enum status answer_page_of(const struct request *request, struct page *out, struct error *error);

/* Answers 200 with a page of the store, which it takes, also on failure. Its cursor becomes an address in "next" and in
 * a Link header. */
MUST_CHECK enum status answer_list(struct response *response, const struct request *request, json_t *page,
                                   struct error *error);

/* What most lists are asked for. */
struct list_request {
    struct page page;
    struct list_view view;
    struct list_filter filter;
    json_t *tags; /* owned; the filter lends it */
};

/* Reads page, view and filter of a list whose items have the fields of `table`. The caller ends *out with
 * answer_listed, also on failure. */
MUST_CHECK enum status answer_list_request(const struct request *request, const struct list_field *table,
                                           struct list_request *out, struct error *error);

/* Ends a request for a list with `status`: on success answers with `document` (taken) as answer_view does; otherwise
 * returns the status. */
MUST_CHECK enum status answer_listed(struct response *response, const struct request *request,
                                     struct list_request *asked, enum status status, json_t *document,
                                     struct error *error);

/* As answer_list, with the fields of the view only. */
MUST_CHECK enum status answer_view(struct response *response, const struct request *request,
                                   const struct list_view *view, json_t *page, struct error *error);

/* The first half of answer_list, for an answer in another form: the address, and the Link header when there is a next
 * page. */
MUST_CHECK enum status answer_next(struct response *response, const struct request *request, json_t *page,
                                   struct error *error);

/* Answers with `document` (taken), and a Location made of `prefix` and its id. */
MUST_CHECK enum status answer_made(struct response *response, int http_status, const char *prefix, json_t *document,
                                   struct error *error);

/* Ends a request that changed the queue with `status`: on success wakes the requests that wait for a change and answers
 * 202 with `document` (taken); otherwise returns the status. */
MUST_CHECK enum status answer_changed(struct response *response, struct connection *connection, enum status status,
                                      json_t *document, struct error *error);

/* Answers 200 with the document that `get` finds. */
MUST_CHECK enum status answer_found(struct response *response, struct connection *connection,
                                    enum status (*get)(struct connection *connection, const char *reference,
                                                       json_t **document, struct error *error),
                                    const char *reference, struct error *error);

/* Ends a request with `status`: 204 on success; otherwise returns the status. */
MUST_CHECK enum status answer_empty(struct response *response, enum status status);

/* Ends a deletion with `status`: on success wakes the requests that wait for a change and answers 204; otherwise
 * returns the status. */
MUST_CHECK enum status answer_deleted(struct response *response, struct connection *connection, enum status status);

#endif
