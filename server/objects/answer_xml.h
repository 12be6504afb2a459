/* answer_xml.h: parses the XML answers of S3 and of STS (expat). The bytes come from a stranger: depth and lengths are
 * bounded, and document types, which could define entities, are refused. */
#ifndef OBJECTS_ANSWER_XML_H
#define OBJECTS_ANSWER_XML_H

#include "base/error.h"
#include "transfer/transfer_head.h"

/* Called at the end of each element that holds nothing but text, with the names of the elements around it, outermost
 * first ("ListBucketResult/Contents/Key"), and at the end of each other one with a NULL text. What it returns ends
 * the reading unless it is STATUS_OK. */
typedef enum status answer_xml_visitor(void *context, const char *path, const char *text, struct error *error);

/* STATUS_CORRUPT for text that is no such XML; statuses of the visitor. */
MUST_CHECK enum status answer_xml_read(const char *bytes, size_t length, answer_xml_visitor *visit, void *context,
                                       struct error *error);

/* Copies the parts of <Error><Code>…</Code><Message>…</Message><Region>…</Region></Error> that are present into
 * head->code, message and region, as printable ASCII. An <ErrorResponse> may be around it. */
void answer_xml_refusal(const char *body, size_t length, struct transfer_head *head);

#endif
