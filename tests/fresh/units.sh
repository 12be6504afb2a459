#!/bin/bash
# units.sh: boots systemd in a container (systemd-nspawn) on a minimal Debian of this machine's suite, with what
# `make install` puts there, and has units_inside.sh ask the three units for what they promise. Prints what was seen.
# The product is the one that is built here. Needs root, debootstrap and systemd-nspawn (Debian: systemd-container).
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
# The packages that have the libraries of the binary, by the path that dpkg knows (/lib is a link to /usr/lib), and
# what it opens by itself or starts.
libraries=$(ldd build/deltaq | awk '$3 ~ "^/" { print $3 }' | while read -r path; do
    dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "/usr$path"
done | sed 's/[:,].*//' | sort -u | paste -sd,)
packages=systemd,systemd-sysv,dbus,procps,curl,jq,libopenblas0-pthread,postgresql,$libraries
base=$PWD/build/fresh/$VERSION_CODENAME.units-$(cksum <<<"$packages" | cut -d' ' -f1).tar

mkdir -p build/fresh
machine_base "$VERSION_CODENAME" "$base" "$packages"
rm -rf "$root" && mkdir "$root" && tar -C "$root" -xf "$base"
make -s install DESTDIR="$root" PREFIX=/usr NVCC= >/dev/null
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
