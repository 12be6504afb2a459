#!/bin/sh
# unpack.sh DIRECTORY PACKAGE...: downloads Debian packages and unpacks their files below DIRECTORY/unpacked. Nothing
# is installed and no rights are needed. Of PACKAGE+ the package that it depends on is taken (linux-source+: the
# source of the release's own kernel). Where the system has no package lists, or old ones, lists are fetched into
# DIRECTORY. Exit status 1: apt could not, and its words are on stderr.
set -eu
mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
directory=$(cd "$1" && pwd)
shift
for tool in apt-get apt-cache dpkg-deb; do
    command -v $tool >/dev/null || {
        echo "this system has no $tool to fetch and unpack Debian packages" >&2
        exit 1
    }
done
# The packages are fetched as who calls, not as apt's own user, which may not write here.
options="-q=2 -o APT::Sandbox::User=$(id -un) -o Acquire::Retries=1"
options="$options -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
own="-o Dir::State::lists=$directory/lists -o Dir::Cache=$directory/cache"
named() {
    for package in "$@"; do
        case $package in
        *+)
            package=${package%+}
            found=$(apt-cache $lists depends "$package" 2>/dev/null |
                sed -n "s/^ *Depends: \($package-.*\)/\1/p" | head -n 1)
            echo "${found:-$package}" # which apt then says it does not know
            ;;
        *) echo "$package" ;;
        esac
    done
}
fetch() { (cd "$directory" && apt-get $options $lists download $(named "$@")) >>"$directory/log" 2>&1; }
lists=
fetch "$@" || {
    lists=$own
    apt-get $options $own update >>"$directory/log" 2>&1 && fetch "$@"
} || {
    sed -n -E 's/^[EW]: ?/  /p' "$directory/log" | grep -v candidate | sort -u | head -n 2 >&2
    exit 1
}
for package in "$directory"/*.deb; do
    dpkg-deb -x "$package" "$directory/unpacked"
    rm "$package"
done
