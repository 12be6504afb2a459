#!/bin/sh
# corpus.sh DIRECTORY: real English text for the demo, out of Debian's perl-doc package: the Perl manual without its markup, as
# train.txt and validation.txt (every twentieth page). Only the package's files are taken; nothing is installed.
set -eu
directory=$1
[ -s "$directory/train.txt" ] && exit 0
mkdir -p "$directory/deb"
(cd "$directory/deb" && apt-get download -qq perl-doc 2>/dev/null) || {
    echo "demo: cannot download Debian's perl-doc package; run 'make deps' first (it refreshes the package lists)" >&2
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
