/**
 * What `gcloud … ssh --dry-run` prints: the ssh command that it would run. From it we take where the host is, whose user and
 * key are used and how its host key is found; ssh itself is then run by us.
 *
 * The command line is printed without quotes by the TPU commands (gcloud 528, `tpus/tpu_vm/ssh.py`), and with double quotes
 * around arguments with spaces by `compute ssh`. A ProxyCommand is the only argument that has any.
 */
import { RemoteProblem } from '../remote-error.js';
import { checkDestination, type SshTarget } from '../ssh/target.js';

/** Options that name the host and its key. Others (`StrictHostKeyChecking=no`) are the user's business, not gcloud's. */
const TAKEN = new Set([
  'hostkeyalias',
  'userknownhostsfile',
  'proxycommand',
  'proxyusefdpass',
  'identitiesonly',
  'certificatefile',
  'checkhostip',
  'hashknownhosts',
  'port',
  'user'
]);

/** One target for each line that is an ssh command. */
export function parseDryRun(stdout: string): SshTarget[] {
  return stdout
    .split('\n')
    .map(line => line.trim())
    .filter(line => /^("[^"]*ssh"|\S*ssh)(\s|$)/.test(line))
    .map(parseLine);
}

function parseLine(line: string): SshTarget {
  const words = splitLine(line).slice(1);
  const options: string[] = [];
  let destination: string | null = null;
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? '';
    if (word === '--') break;
    if (word === '-o' || word.startsWith('-o ')) {
      const given = word === '-o' ? (words[++index] ?? '') : word.slice(3);
      if (TAKEN.has((given.split(/[= ]/)[0] ?? '').toLowerCase())) options.push('-o', given);
    } else if (word === '-i' || word === '-p') {
      options.push(word, words[++index] ?? '');
    } else if (!word.startsWith('-')) {
      destination ??= word;
    }
  }
  if (destination === null) {
    throw new RemoteProblem(
      'gcloud_unreadable',
      `gcloud printed an ssh command without a host: ${line.slice(0, 300)}`
    );
  }
  return { destination: checkDestination(destination), options };
}

function splitLine(line: string): string[] {
  const words: string[] = [];
  let rest = line;
  while (rest !== '') {
    // Unquoted, the command of a proxy ends where the next option begins, or before the host, the last word.
    const proxy = /^(ProxyCommand=.*?)(?=\s-o\s|\s\S+$)\s*/i.exec(rest);
    const match = proxy ?? /^"([^"]*)"\s*/.exec(rest) ?? /^(\S+)\s*/.exec(rest);
    if (match?.[1] === undefined) break;
    words.push(match[1]);
    rest = rest.slice(match[0].length);
  }
  return words;
}
