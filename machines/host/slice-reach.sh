# shellcheck shell=sh
# On host 0: tries the addresses of another host until it answers with its own host key, and prints that address.
#
# `$1`: our folder, `$2`: number of the host, `$3`: its user; standard input: lines for `known_hosts`, one for each address and key.
umask 077
cd "$1/slice" || exit 1
known=known_hosts.$2
cat > "$known"
failure='it has no address'
# shellcheck disable=SC2013
for address in $(cut -d' ' -f1 "$known" | awk '!seen[$0]++'); do
  if failure=$(ssh -F /dev/null -T -i "$1/slice/key" -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes \
    -o "UserKnownHostsFile=$known" -o GlobalKnownHostsFile=/dev/null -o ConnectTimeout=5 -o LogLevel=ERROR \
    "$3@$address" true 2>&1 < /dev/null); then
    printf 'address\t%s\n' "$address"
    exit 0
  fi
done
printf '%s\n' "$failure" | tail -n 1 >&2
exit 4
