# shellcheck shell=sh disable=SC2034
# Before each script that changes something on a host, in POSIX sh. Each makes one thing beside its place and renames it into it, is done
# at once when the thing is there, and runs under a lock of the system that ends with its process: two laptops take turns, and a
# connection that is lost leaves a script that ends by itself. Lines `KEY<tab>VALUE` are for us, others are for the log.
#
# `$1` is our folder there, absolute; further arguments are named at each script.

# As EXIT in host-scripts.ts (spec). Other codes are those of the program that a script ran.
exit_no_downloader=64; exit_download=65; exit_checksum=66; exit_unpack=67
exit_busy=68; exit_gateway_ended=69; exit_gateway_silent=70; exit_other_build=71
# Longest turn of another set-up of this host: an environment with all its downloads.
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
