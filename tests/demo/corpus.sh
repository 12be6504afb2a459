#!/bin/sh
# corpus.sh DIRECTORY: real English text for the demo, out of Debian's perl-doc package: the Perl manual without its
# markup, as train.txt and validation.txt (every twentieth page). Only the package's files are taken: nothing is
# installed, and no rights are needed. Where the system has no package lists, or old ones, lists are fetched into
# DIRECTORY and removed again.
set -eu
directory=$1
[ -s "$directory/train.txt" ] && [ -s "$directory/validation.txt" ] && exit 0
directory=$(mkdir -p "$directory" && cd "$directory" && pwd)
rm -rf "$directory/deb"
echo "fetching the text: Debian's perl-doc package, 8 MB"
"$(dirname "$0")/../tools/unpack.sh" "$directory/deb" perl-doc || {
    echo "demo: the text to train on is Debian's perl-doc package, and it could not be fetched (why: above);" >&2
    echo "demo: it is needed once: connect this machine to Debian's package servers and run the demo again" >&2
    rm -rf "$directory/deb"
    exit 1
}
find "$directory/deb/unpacked" -name '*.pod' | LC_ALL=C sort > "$directory/deb/pages"
rm -f "$directory/train.part" "$directory/validation.part"
number=0
while read -r page; do
    number=$((number + 1))
    part=train
    [ $((number % 20)) -eq 0 ] && part=validation
    # prose only: no code (indented lines), no directives; inline markup such as C<...> loses its brackets
    sed -E -e '/^=/d' -e '/^[ \t]/d' -e 's/[BCEFILSXZ]<+ ?([^<>]*[^<> ]) ?>+/\1/g' "$page" |
        cat -s >> "$directory/$part.part"
done < "$directory/deb/pages"
rm -rf "$directory/deb"
mv "$directory/validation.part" "$directory/validation.txt"
mv "$directory/train.part" "$directory/train.txt"
