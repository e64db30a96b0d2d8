# shellcheck shell=sh
# On host 0: writes the kernelspec of the slice.
#
# `$1`: our folder, `$2`: Python, `$3`: name, `$4`: type, then the other hosts as `USER@ADDRESS`; standard input: `known_hosts`.
umask 077
folder=$1/slice; python=$2; name=$3; type=$4
shift 4
cat > "$folder/known_hosts.new" && mv -f "$folder/known_hosts.new" "$folder/known_hosts" || exit 1
rm -f "$folder"/known_hosts.* "$folder/lost"
for host do
  set -- "$@" --host "$host"
  shift
done
exec "$python" -m tpulab.slice add "$name" --type "$type" --python "$python" "$@" --lost-file "$folder/lost" \
  --ssh-option=-F --ssh-option=/dev/null --ssh-option=-i "--ssh-option=$folder/key" --ssh-option=-oIdentitiesOnly=yes \
  --ssh-option=-oStrictHostKeyChecking=yes "--ssh-option=-oUserKnownHostsFile=$folder/known_hosts" \
  --ssh-option=-oGlobalKnownHostsFile=/dev/null
