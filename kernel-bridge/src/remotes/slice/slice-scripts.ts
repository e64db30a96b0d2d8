/**
 * How host 0 of a slice reaches the others: with a key that was made there, that nobody else has, and that starts one program on them.
 * `docs/decisions/0016-how-hosts-of-a-slice-meet.md` says why.
 */

/** Ends the line of our key in `authorized_keys`. */
const COMMENT = 'tpulab-slice';

/**
 * On host 0: makes the key unless it is there, and says its public half.
 *
 * `$1`: our folder there, absolute.
 */
export const KEY_SCRIPT = `umask 077
mkdir -p "$1/slice" || exit 1
cd "$1/slice" || exit 1
if [ ! -f key ] || [ ! -f key.pub ]; then
  rm -f key key.pub
  ssh-keygen -q -t ed25519 -N '' -C ${COMMENT} -f key || exit 1
fi
cut -d' ' -f1,2 key.pub`;

/**
 * On another host: checks its Python, admits the key for one program, and says how the host is reached and known.
 *
 * `$1`: the public key, `$2`: Python of its environment, a path that needs no quotes. Exit 3: that Python cannot run a host of a slice.
 */
export const ADMIT_SCRIPT = `umask 077
"$2" -m tpulab.slice check || exit 3
mkdir -p "$HOME/.ssh" || exit 1
file=$(readlink -f "$HOME/.ssh/authorized_keys")
touch "$file" || exit 1
{
  grep -v ' ${COMMENT}$' "$file"
  printf 'restrict,port-forwarding,command="exec %s -m tpulab.slice.supervisor" %s ${COMMENT}\\n' "$2" "$1"
} > "$file.tpulab" && chmod 600 "$file.tpulab" && mv -f "$file.tpulab" "$file" || exit 1
say() { printf '%s\\t%s\\n' "$1" "$2"; }
say user "$(id -un)"
for address in $(ip -4 route get 192.0.2.1 2> /dev/null | sed -n 's/.* src \\([0-9.]*\\).*/\\1/p') $(hostname -I 2> /dev/null); do
  case $address in 127.* | 169.254.* | *:*) ;; *) say address "$address" ;; esac
done
# Asked of itself over the loopback interface, so that nobody else can answer; what the files are called does not matter.
ssh-keyscan -T 5 127.0.0.1 2> /dev/null | while read -r _ key; do say key "$key"; done`;

/**
 * On host 0: tries the addresses of another host until it answers with its own host key, and says which does.
 *
 * `$1`: our folder, `$2`: number of the host, `$3`: its user; standard input: lines for `known_hosts`, one for each address and key.
 */
export const REACH_SCRIPT = `umask 077
cd "$1/slice" || exit 1
known=known_hosts.$2
cat > "$known"
failure='it has no address'
for address in $(cut -d' ' -f1 "$known" | awk '!seen[$0]++'); do
  if failure=$(ssh -F /dev/null -T -i "$1/slice/key" -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes \\
    -o "UserKnownHostsFile=$known" -o GlobalKnownHostsFile=/dev/null -o ConnectTimeout=5 -o LogLevel=ERROR \\
    "$3@$address" true 2>&1 < /dev/null); then
    printf 'address\\t%s\\n' "$address"
    exit 0
  fi
done
printf '%s\\n' "$failure" | tail -n 1 >&2
exit 4`;

/**
 * On host 0: writes the kernelspec of the slice.
 *
 * `$1`: our folder, `$2`: Python, `$3`: name, `$4`: type, then the other hosts as `USER@ADDRESS`; standard input: `known_hosts`.
 */
export const OFFER_SCRIPT = `umask 077
folder=$1/slice; python=$2; name=$3; type=$4
shift 4
cat > "$folder/known_hosts.new" && mv -f "$folder/known_hosts.new" "$folder/known_hosts" || exit 1
rm -f "$folder"/known_hosts.* "$folder/lost"
for host do
  set -- "$@" --host "$host"
  shift
done
exec "$python" -m tpulab.slice add "$name" --type "$type" --python "$python" "$@" --lost-file "$folder/lost" \\
  --ssh-option=-F --ssh-option=/dev/null --ssh-option=-i "--ssh-option=$folder/key" --ssh-option=-oIdentitiesOnly=yes \\
  --ssh-option=-oStrictHostKeyChecking=yes "--ssh-option=-oUserKnownHostsFile=$folder/known_hosts" \\
  --ssh-option=-oGlobalKnownHostsFile=/dev/null`;

/**
 * On host 0: waits until the kernel of the slice names a host that it did not reach, and says its number. Says nothing after five minutes,
 * so that none is left there for long when the connection is lost.
 *
 * `$1`: our folder.
 */
export const AWAIT_LOSS_SCRIPT = `lost=$1/slice/lost
n=0
while [ ! -s "$lost" ] && [ $n -lt 300 ]; do n=$((n + 1)); sleep 1; done
[ ! -s "$lost" ] || { sort -nu "$lost"; rm -f "$lost"; }`;
