/** How gcloud would run ssh, read from what it prints. */
import { RemoteProblem } from '../remote-error.js';
import { checkDestination } from '../ssh/ssh-config.js';
import type { GcloudTarget } from './host-keys.js';

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

/**
 * What `gcloud … ssh --dry-run` prints, one target for each line that is an ssh command: where the host is, whose user and key are used
 * and how its host key is found. ssh itself is then run by us.
 *
 * The TPU commands join the arguments with spaces and quote nothing (`tpus/tpu_vm/ssh.py`); `compute ssh` puts double quotes around those
 * with spaces and escapes nothing (`surface/compute/ssh.py`). So an argument ends where the next flag begins, and the command of a proxy
 * where `ProxyUseFdpass` does, which always follows it (`command_lib/util/ssh/ssh.py`).
 */
export function parseDryRun(stdout: string): GcloudTarget[] {
  return stdout
    .split('\n')
    .map(line => line.trim())
    .filter(line => /^("[^"]*ssh"|\S*ssh)(\s|$)/.test(line))
    .map(parseLine);
}

const PROXY = / -o ("?)ProxyCommand[ =](.+?)\1(?= -o ProxyUseFdpass=)/i;

function parseLine(line: string): GcloudTarget {
  const proxy = PROXY.exec(line);
  const rest = (proxy === null ? line : line.replace(proxy[0], () => '')).replace(/ -- .*$/, '');
  const [, flags = '', destination = ''] = /^(?:"[^"]*"|\S+)((?: .*)?) (\S+)$/.exec(rest) ?? [];
  const options: string[] = [];
  let alias: string | null = null;
  let isKnown = false;
  for (const part of flags.split(/ "?-(?=[iop] |[iop]$)/).slice(1)) {
    const [flag, value] = [part.charAt(0), part.slice(1).replaceAll('"', '').trim()];
    if (value === '') throw unreadable(line);
    if (flag !== 'o') {
      options.push(`-${flag}`, value);
      continue;
    }
    const [, name = '', text = ''] = /^(\w+)[= ](.*)$/.exec(value) ?? [];
    if (/^StrictHostKeyChecking$/i.test(name)) isKnown = text === 'yes';
    if (/^HostKeyAlias$/i.test(name)) alias = text;
    if (TAKEN.has(name.toLowerCase())) options.push('-o', `${name}=${quoted(text)}`);
  }
  if (proxy?.[2] !== undefined) options.push('-o', `ProxyCommand=${proxy[2]}`);
  if (destination === '' || destination.startsWith('-')) throw unreadable(line);
  return { destination: checkDestination(destination), options, alias, isKnown };
}

/** As ssh reads a value with spaces. */
function quoted(value: string): string {
  return value.includes(' ') ? `"${value}"` : value;
}

function unreadable(line: string): RemoteProblem {
  return new RemoteProblem(
    'gcloud_unreadable',
    `gcloud printed an ssh command without a host: ${line.slice(0, 300)}`
  );
}
