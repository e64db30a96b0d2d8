/**
 * A script with arguments as one command line that every login shell understands alike (sh, bash, zsh, fish, csh): there is
 * nothing in it but letters, digits and one pair of quotes, and the script itself is Base64 until sh reads it.
 */
const RUN = `exec sh -c 'eval "$(printf %s "$1" | base64 -d)"' tpulab`;

export function shellCommand(script: string, args: readonly string[]): string {
  const text = `set -- ${args.map(quoted).join(' ')}\n${script}\n`;
  return `${RUN} ${Buffer.from(text, 'utf8').toString('base64')}`;
}

/** For a POSIX shell. */
function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}
