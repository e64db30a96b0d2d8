# shellcheck shell=sh
# On host 0: waits until the kernel of the slice names a host that it did not reach, and prints its number. Prints nothing after five
# minutes, so that no script stays there for long after the connection is lost.
#
# `$1`: our folder.
lost=$1/slice/lost
n=0
while [ ! -s "$lost" ] && [ $n -lt 300 ]; do n=$((n + 1)); sleep 1; done
[ ! -s "$lost" ] || { sort -nu "$lost"; rm -f "$lost"; }
