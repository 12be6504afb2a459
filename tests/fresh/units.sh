#!/bin/bash
# units.sh [bookworm|trixie]: boots systemd in a container (systemd-nspawn) on a minimal Debian, with what
# `make install` puts there, and has units_inside.sh ask the three units for what they promise. Prints what was seen.
# The product is the one that is built here; for another suite than this machine's, what is committed is built on a
# bare machine of that suite. Needs root, debootstrap and systemd-nspawn (Debian: systemd-container).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/fresh/machine.sh
. /etc/os-release
python=build/venv/bin/python
root=$PWD/build/fresh/units

machine_needs check-units
command -v systemd-nspawn >/dev/null || {
    echo "check-units: needs systemd-nspawn: apt-get install systemd-container" >&2
    exit 1
}
suite=${1:-$VERSION_CODENAME}
staged=$PWD/build/fresh/units-staged

# Installs below staged/, and lists there the packages that have the libraries of the binary, by the path that dpkg
# knows (/lib is a link to /usr/lib).
stage='make -s install DESTDIR="$staged" PREFIX=/usr NVCC= >/dev/null
    ldd build/deltaq | while read -r _ _ path _; do
        [ "${path#/}" = "$path" ] || dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "/usr$path"
    done | sed "s/[:,].*//" | sort -u | paste -sd, >"$staged/libraries"'
mkdir -p build/fresh
rm -rf "$staged"
if [ "$suite" = "$VERSION_CODENAME" ]; then
    staged=$staged bash -euc "$stage"
else
    machine_base "$suite" "$PWD/build/fresh/$suite.tar" make,git,ca-certificates
    machine_unpack "$suite" "$PWD/build/fresh/$suite.tar" "$root"
    git clone -q --no-hardlinks . "$root/root/deltaq"
    machine_inside "$root" "update-ca-certificates >/dev/null; cd /root/deltaq; make -s deps-build; make -s
        staged=/root/staged; $stage"
    mv "$root/root/staged" "$staged"
fi
libraries=$(cat "$staged/libraries")
rm "$staged/libraries"
# And what it opens by itself or starts.
packages=systemd,systemd-sysv,dbus,procps,curl,jq,libopenblas0-pthread,postgresql,$libraries
base=$PWD/build/fresh/$suite.units-$(cksum <<<"$packages" | cut -d' ' -f1).tar

machine_base "$suite" "$base" "$packages"
rm -rf "$root" && mkdir "$root" && tar -C "$root" -xf "$base"
cp -a "$staged/." "$root/"
rm -rf "$staged"
# Debian's own PostgreSQL is the database by URL; it waits until it is wanted.
systemctl --quiet --root="$root" enable deltaq
systemctl --quiet --root="$root" disable postgresql
echo DELTAQ_ROOT=/srv/checkpoints >"$root/etc/default/deltaq"
mkdir "$root/srv/checkpoints"
PYTHONPATH=tests/http $python - "$root/srv/checkpoints" <<'END'
import json, models, pathlib, sys
directory = pathlib.Path(sys.argv[1])
models.write_llama(directory / "first")
(directory / "rows.json").write_text(json.dumps({"name": "rows", "sequences": models.rows(4, 32)}))
END
chmod -R a+rX "$root/srv/checkpoints"
cp tests/fresh/units_inside.sh "$root/root/"
cat >"$root/etc/systemd/system/units-check.service" <<'END'
[Unit]
Description=asks the units of deltaq
[Service]
ExecStart=/bin/bash -c '/root/units_inside.sh >/root/report 2>&1; systemctl exit $?'
Environment=HOME=/root
[Install]
WantedBy=multi-user.target
END
systemctl --quiet --root="$root" enable units-check

# Without systemd as this machine's first process there is nobody to make a scope, or to register with.
alone=()
[ -d /run/systemd/system ] || alone=(--register=no --keep-unit)
code=0
timeout 1200 systemd-nspawn --quiet --boot --directory="$root" --machine=deltaq-units --private-network \
    --console=pipe "${alone[@]}" </dev/null >build/fresh/units.console 2>&1 || code=$?
cat "$root/root/report" || tail -50 build/fresh/units.console
[ "$code" = 0 ] || { echo "check-units: exit status $code; the console is in build/fresh/units.console" >&2; exit 1; }
rm -rf "$root"
