/* accept.h: Accept and Accept-Encoding (RFC 9110, 12.5). Qualities are in thousandths; 0 means not acceptable. */
#ifndef HTTP_ACCEPT_H
#define HTTP_ACCEPT_H

/* The quality that `header` gives a media type; the most specific range counts. */
int accept_type_quality(const char *header, const char *type);

/* The quality of a content coding ("gzip"); 0 when `header` is NULL. */
int accept_coding_quality(const char *header, const char *coding);

#endif
