# shellcheck shell=sh disable=SC2034
# Precedes each script that changes a host, in POSIX sh. Each script creates one thing under a temporary name and renames it into
# place, ends immediately if the thing exists, and runs under a system lock that ends with its process: two laptops take turns, and
# after a lost connection a script ends on its own. Lines `KEY<tab>VALUE` are for our program, others are for the log.
#
# `$1` is our folder there, absolute; each script documents its further arguments.

# The same as EXIT in host-scripts.ts (spec). Other codes come from the program that a script ran.
exit_no_downloader=64; exit_download=65; exit_checksum=66; exit_unpack=67
exit_busy=68; exit_gateway_ended=69; exit_gateway_silent=70; exit_other_build=71
# Longest duration of another setup of this host: an environment with all its downloads.
turn_s=3600

LC_ALL=C; export LC_ALL
umask 077
base=$1; shift
say() { printf '%s\t%s\n' "$1" "$2"; }
mkdir -p "$base" || exit 1
exec 9>"$base/lock" || exit 1
if ! flock -n 9; then
  say waiting 'another setup is running on this machine'
  flock -w "$turn_s" 9 || exit "$exit_busy"
  say working ''
fi
