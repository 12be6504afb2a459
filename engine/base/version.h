/* version.h: the version of this build. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define DELTAQ_VERSION "0.1.0"

/* Grows whenever the same request may give other numbers than before: results of another revision are not reused. */
#define ENGINE_REVISION 8

/* A number of this file as text. */
#define VERSION_TEXT(number)  VERSION_QUOTE(number)
#define VERSION_QUOTE(number) #number

#endif
