# shellcheck shell=sh
# On host 0: creates the key unless it exists, and prints its public half.
#
# `$1`: our folder there, absolute.
umask 077
mkdir -p "$1/slice" || exit 1
cd "$1/slice" || exit 1
if [ ! -f key ] || [ ! -f key.pub ]; then
  rm -f key key.pub
  ssh-keygen -q -t ed25519 -N '' -C tpulab-slice -f key || exit 1
fi
cut -d' ' -f1,2 key.pub
