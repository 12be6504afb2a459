#!/bin/sh
# corpus.sh DIRECTORY: real English text for the demo, out of Debian's perl-doc package: the Perl manual without its markup, as
# train.txt and validation.txt (every twentieth page). Only the package's files are taken: nothing is installed, and no rights are
# needed. Where the system has no package lists, or old ones, lists are fetched into DIRECTORY and removed again.
set -eu
directory=$1
[ -s "$directory/train.txt" ] && [ -s "$directory/validation.txt" ] && exit 0
say() { echo "demo: $1" >&2; }
for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || {
        say "the text to train on is Debian's perl-doc package, and this system has no $tool to fetch and unpack it"
        exit 1
    }
done
rm -rf "$directory/deb"
mkdir -p "$directory/deb/lists/partial" "$directory/deb/cache/archives/partial"
directory=$(cd "$directory" && pwd)
# The package is fetched as who calls, not as apt's own user, which may not write here.
options="-q=2 -o APT::Sandbox::User=$(id -un) -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
own="-o Dir::State::lists=$directory/deb/lists -o Dir::Cache=$directory/deb/cache"
fetch() { (cd "$directory/deb" && apt-get $options "$@" download perl-doc) >>"$directory/deb/log" 2>&1; }
echo "fetching the text: Debian's perl-doc package, 8 MB"
fetch || {
    apt-get $options $own update >>"$directory/deb/log" 2>&1 && fetch $own
} || {
    say "the text to train on is Debian's perl-doc package, and it could not be fetched; apt says:"
    sed -n -E 's/^[EW]: ?/  /p' "$directory/deb/log" | grep -v candidate | sort -u | head -n 2 >&2
    say "it is needed once: connect this machine to Debian's package servers and run the demo again"
    rm -rf "$directory/deb"
    exit 1
}
dpkg-deb -x "$directory"/deb/perl-doc_*.deb "$directory/deb/unpacked"
find "$directory/deb/unpacked" -name '*.pod' | LC_ALL=C sort > "$directory/deb/pages"
rm -f "$directory/train.part" "$directory/validation.part"
number=0
while read -r page; do
    number=$((number + 1))
    part=train
    [ $((number % 20)) -eq 0 ] && part=validation
    # prose only: no code (indented lines), no directives; inline markup such as C<...> loses its brackets
    sed -E -e '/^=/d' -e '/^[ \t]/d' -e 's/[BCEFILSXZ]<+ ?([^<>]*[^<> ]) ?>+/\1/g' "$page" | cat -s >> "$directory/$part.part"
done < "$directory/deb/pages"
rm -rf "$directory/deb"
mv "$directory/validation.part" "$directory/validation.txt"
mv "$directory/train.part" "$directory/train.txt"
