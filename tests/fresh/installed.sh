#!/bin/sh
# installed.sh DEB: on a machine that may be thrown away: installs the package as a person would; says what is wrong.
set -eu
fail() { echo "installed.sh: $*" >&2; exit 1; }
as_user="setpriv --reuid deltaq --regid deltaq --clear-groups env HOME=/var/lib/deltaq"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
before=$(dpkg-query -W -f '${Package}\n')

apt-get install -y -qq "$1" >/root/log 2>&1 || { tail -40 /root/log >&2; fail "it does not install"; }
dpkg-query -W -f '${Status}\n' postgresql | grep -q ' installed' || fail "PostgreSQL was not recommended"
getent passwd deltaq >/dev/null || fail "no user deltaq"
deltaq --version
[ "$(deltaq --version)" = "$(deltaq version)" ] || fail "two versions"
zcat /usr/share/man/man1/deltaq-serve.1.gz | grep -q DELTAQ_LISTEN || fail "no manual page of serve"
grep -q 'complete .* deltaq' /usr/share/bash-completion/completions/deltaq || fail "no completion"
[ -f /usr/share/zsh/vendor-completions/_deltaq ] || fail "no completion for zsh"
for unit in deltaq deltaq-worker; do
    found=$(find /lib/systemd/system /usr/lib/systemd/system -name $unit.service | head -1)
    grep -q '^ExecStart=/usr/bin/deltaq ' "$found" || fail "no unit $unit"
    [ ! -e /etc/systemd/system/multi-user.target.wants/$unit.service ] || fail "$unit is enabled without being asked"
done
install -d -o deltaq -g deltaq -m 0700 /var/lib/deltaq # systemd does this at the start of the unit
$as_user deltaq doctor --data-dir /var/lib/deltaq || fail "doctor"
$as_user deltaq serve --data-dir /var/lib/deltaq >/root/serve.log 2>&1 &
server=$!
deltaq ready --wait --timeout 300 || fail "the server does not start: $(cat /root/serve.log)"
kill -TERM $server
wait $server || fail "the server ended with $?: $(cat /root/serve.log)"

apt-get install -y -qq --reinstall "$1" >/root/log 2>&1 || fail "it does not install again"
echo DELTAQ_LISTEN=127.0.0.1:8650 >>/etc/default/deltaq
apt-get remove -y -qq deltaq >/root/log 2>&1 || fail "it does not go"
[ ! -e /usr/bin/deltaq ] && [ ! -e /usr/share/deltaq ] || fail "something was left behind"
grep -q 8650 /etc/default/deltaq || fail "settings went with a removal"
apt-get purge -y -qq deltaq >/root/log 2>&1 || fail "it is not purged"
grep -q 'has data and was left' /root/log || fail "nothing was said of the data"
[ -d /var/lib/deltaq/pg ] || fail "the data went"
[ ! -e /etc/default/deltaq ] || fail "settings survive a purge"
rm -rf /var/lib/deltaq
apt-get purge -y -qq --auto-remove 'postgresql*' >/root/log 2>&1 || fail "PostgreSQL does not go"
left=$(find / -xdev -path /root -prune -o -name '*deltaq*' -print)
[ -z "$left" ] || fail "left behind: $left"

apt-get install -y -qq --no-install-recommends "$1" >/root/log 2>&1 || fail "it does not install without PostgreSQL"
install -d -o deltaq -g deltaq -m 0700 /var/lib/deltaq
if timeout 300 $as_user deltaq serve --data-dir /var/lib/deltaq >/root/serve.log 2>&1; then
    fail "it serves without PostgreSQL"
fi
grep -qi postgresql /root/serve.log || fail "it does not say that PostgreSQL is missing: $(cat /root/serve.log)"
echo "installed.sh: good; $(dpkg-query -W -f '${Package}\n' | grep -vxc "$before") packages more than before"
