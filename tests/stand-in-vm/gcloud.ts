/**
 * A stand-in for gcloud, which answers with what the real one prints. The forms are those of Google Cloud CLI 528: the dry runs
 * of the TPU commands join their arguments with spaces and quote nothing, that of `compute ssh` puts double quotes around
 * arguments with spaces; errors begin with `ERROR: (gcloud.COMMAND)` on standard error.
 */

export interface GcloudAnswer {
  /** Words that the command line has, in this order. */
  readonly words: readonly string[];
  readonly stdout?: string;
  readonly stderr?: string;
  readonly code?: number;
  /** Milliseconds before it answers. */
  readonly afterMs?: number;
}

/** The first answer whose words are there. `FOLDER` is replaced. */
export const GCLOUD_PROGRAM = `'use strict';
const { appendFileSync, readFileSync } = require('node:fs');
const given = process.argv.slice(2);
appendFileSync(FOLDER + '/gcloud.log', given.join(' ') + '\\n');
const answers = JSON.parse(readFileSync(FOLDER + '/gcloud.json', 'utf8'));
const fits = words => {
  let at = 0;
  for (const word of given) if (word === words[at]) at++;
  return at === words.length;
};
const found = answers.find(answer => fits(answer.words)) ?? {
  code: 2,
  stderr: 'ERROR: (gcloud) Invalid choice: ' + given.join(' ') + '\\n'
};
setTimeout(() => {
  process.stdout.write(found.stdout ?? '');
  process.stderr.write(found.stderr ?? '');
  process.exitCode = found.code ?? 0;
}, found.afterMs ?? 0);
`;

/** How ssh reaches a host, as gcloud knows it. */
export interface Reached {
  readonly user: string;
  readonly address: string;
  readonly key: string;
  readonly knownHosts: string;
  readonly hostKeyAlias: string;
  readonly proxyCommand?: string;
}

/** A line of the dry run of `gcloud compute tpus tpu-vm ssh` and of `queued-resources ssh`. */
export function tpuDryRun(reached: Reached): string {
  return `${['/usr/bin/ssh', '-T', ...sshArguments(reached), `${reached.user}@${reached.address}`, '--', 'true'].join(' ')}\n`;
}

/** A line of the dry run of `gcloud compute ssh`. */
export function computeDryRun(reached: Reached): string {
  return `${['/usr/bin/ssh', '-t', ...sshArguments(reached), `${reached.user}@${reached.address}`]
    .map(word => (word.includes(' ') ? `"${word}"` : word))
    .join(' ')}\n`;
}

function sshArguments({ key, knownHosts, hostKeyAlias, proxyCommand }: Reached): string[] {
  const options = [
    'CheckHostIP=no',
    'HashKnownHosts=no',
    `HostKeyAlias=${hostKeyAlias}`,
    'IdentitiesOnly=yes',
    'StrictHostKeyChecking=yes',
    `UserKnownHostsFile=${knownHosts}`,
    ...(proxyCommand === undefined ? [] : [`ProxyCommand=${proxyCommand}`, 'ProxyUseFdpass=no'])
  ];
  return ['-i', key, ...options.flatMap(option => ['-o', option])];
}

/** What goes wrong, in the words of the real one. */
export const GCLOUD_FAILURES: Readonly<Record<string, string>> = {
  gcloud_login: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) You do not currently have an active account selected.
Please run:

  $ gcloud auth login

to obtain new credentials.

If you have already logged in with a different account, run:

  $ gcloud config set account ACCOUNT

to select an already authenticated account to use.
`,
  gcloud_project: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) The required property [project] is not currently set.
It can be set on a per-command basis by re-running your command with the [--project] flag.

You may set it for your current workspace by running:

  $ gcloud config set project VALUE

or it can be set temporarily by the environment variable [CLOUDSDK_CORE_PROJECT]
`,
  gcloud_not_found: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) NOT_FOUND: Resource 'projects/p/locations/us-east5-b/nodes/my-tpu' was not found
`,
  gcloud_api_disabled: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) PERMISSION_DENIED: Cloud TPU API has not been used in project 12345 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=12345 then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.
- '@type': type.googleapis.com/google.rpc.ErrorInfo
  domain: googleapis.com
  metadata:
    service: tpu.googleapis.com
  reason: SERVICE_DISABLED
`,
  gcloud_permission: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) PERMISSION_DENIED: Permission 'tpu.nodes.get' denied on 'projects/p/locations/us-east5-b/nodes/my-tpu'
`,
  gcloud_failed: `ERROR: gcloud crashed (ConnectionError): HTTPSConnectionPool(host='tpu.googleapis.com', port=443): Max retries exceeded
`
};
