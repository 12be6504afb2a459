#!/bin/sh
# toolchain.sh COMPILER [FLAG...]: fails, with what to do, where the compiler or a header that the product is built on
# is missing. Without it the first sign of a bare machine would be "cc: not found".
set -eu
compiler=$1
shift
if ! command -v "$compiler" >/dev/null 2>&1; then
    echo "there is no C compiler ($compiler) here: run \`make deps-build\`," \
        "which installs what building and running need" >&2
    exit 1
fi
headers='microhttpd.h jansson.h libpq-fe.h pcre2.h utf8proc.h openssl/evp.h zlib.h curl/curl.h sqlite3.h
gnutls/gnutls.h expat.h'
if ! printf '#include <%s>\n' $headers |
    "$compiler" -E -DPCRE2_CODE_UNIT_WIDTH=8 "$@" -x c - >/dev/null 2>&1; then
    for header in $headers; do
        echo "#include <$header>" | "$compiler" -E -DPCRE2_CODE_UNIT_WIDTH=8 "$@" -x c - >/dev/null 2>&1 ||
            echo "  <$header> is missing" >&2
    done
    echo "run \`make deps-build\`, which installs what building and running need" >&2
    exit 1
fi
