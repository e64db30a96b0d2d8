# shellcheck shell=sh
# On another host: checks its Python, accepts the key for one program, and prints the addresses and host keys of this host.
#
# `$1`: the public key, `$2`: Python of its environment, a path that needs no quotes. Exit 3: that Python cannot run a host of a slice.
umask 077
"$2" -m tpulab.slice check || exit 3
mkdir -p "$HOME/.ssh" || exit 1
file=$(readlink -f "$HOME/.ssh/authorized_keys")
touch "$file" || exit 1
{
  grep -v ' tpulab-slice$' "$file"
  printf 'restrict,port-forwarding,command="exec %s -m tpulab.slice.supervisor" %s tpulab-slice\n' "$2" "$1"
} > "$file.tpulab" && chmod 600 "$file.tpulab" && mv -f "$file.tpulab" "$file" || exit 1
say() { printf '%s\t%s\n' "$1" "$2"; }
say user "$(id -un)"
for address in $(ip -4 route get 192.0.2.1 2> /dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p') $(hostname -I 2> /dev/null); do
  case $address in 127.* | 169.254.* | *:*) ;; *) say address "$address" ;; esac
done
# Queried over the loopback interface, so that no other machine can answer, and independent of the names of the key files.
ssh-keyscan -T 5 127.0.0.1 2> /dev/null | while read -r _ key; do say key "$key"; done
