#!/bin/sh
# packages.sh PURPOSE PACKAGE...: installs the Debian packages that are missing and does nothing where none is. Where
# it may not install (no root and no sudo) or cannot (no Debian), it says what is missing, for what, and how to get
# it. Where there is no dpkg nothing can be told of packages: it goes on, and the build says which header or program
# it lacks.
set -eu
purpose=$1
shift

command -v dpkg-query >/dev/null 2>&1 || exit 0
missing=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | awk -v all="$*" '
    $2 == "installed" { have[$1] = 1 }
    END { n = split(all, names, " "); for (i = 1; i <= n; i++) if (!(names[i] in have)) printf "%s ", names[i] }')
[ -n "$missing" ] || exit 0

command="apt-get update && apt-get install --no-install-recommends $missing"
if [ "$(id -u)" = 0 ]; then
    root=
elif command -v sudo >/dev/null 2>&1; then
    root=sudo
else
    why='and only root can install them (there is no sudo here)'
    printf '%s needs these Debian packages, %s:\n  %s\nAs root: %s\n' "$purpose" "$why" "$missing" "$command" >&2
    exit 1
fi
echo "  installing for $purpose: $missing"
if ! { $root apt-get update -qq &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; }; then
    why='and apt-get could not install them (its reason is above)'
    printf '%s needs these Debian packages, %s:\n  %s\nTry: %s\n' \
        "$purpose" "$why" "$missing" "${root:+sudo sh -c \"}$command${root:+\"}" >&2
    exit 1
fi
