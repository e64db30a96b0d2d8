/**
 * A stand-in for gcloud, with the output of the real one. README.md beside this file lists from which file of which version
 * each form and text is. They were recorded from Google Cloud CLI 578 itself, against an API on loopback.
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

/** The first answer whose words all occur. `FOLDER` is replaced. */
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

/** The ssh connection to a host, from gcloud. */
export interface Reached {
  readonly user: string;
  readonly address: string;
  readonly key: string;
  readonly knownHosts: string;
  readonly hostKeyAlias: string;
  /** gcloud has that alias in its known hosts. */
  readonly isKnown?: boolean;
  /** The words behind `ProxyCommand `, escaped for bash as gcloud does. */
  readonly proxyCommand?: string;
}

/** A line of the dry run of `gcloud compute tpus tpu-vm ssh --command=true` and of `queued-resources ssh`: nothing is quoted. */
export function tpuDryRun(reached: Reached): string {
  return `${['/usr/bin/ssh', '-T', ...sshArguments(reached), `${reached.user}@${reached.address}`, '--', 'true'].join(' ')}\n`;
}

/** A line of the dry run of `gcloud compute ssh`: double quotes around arguments with spaces, nothing escaped. */
export function computeDryRun(reached: Reached): string {
  return `${['/usr/bin/ssh', '-t', ...sshArguments(reached), `${reached.user}@${reached.address}`]
    .map(word => (word.includes(' ') ? `"${word}"` : word))
    .join(' ')}\n`;
}

function sshArguments({ key, knownHosts, hostKeyAlias, isKnown = false, proxyCommand }: Reached): string[] {
  const options = [
    'CheckHostIP=no',
    'HashKnownHosts=no',
    `HostKeyAlias=${hostKeyAlias}`,
    'IdentitiesOnly=yes',
    `StrictHostKeyChecking=${isKnown ? 'yes' : 'no'}`,
    `UserKnownHostsFile=${knownHosts}`,
    ...(proxyCommand === undefined ? [] : [`ProxyCommand ${proxyCommand}`, 'ProxyUseFdpass=no'])
  ];
  return ['-i', key, ...options.flatMap(option => ['-o', option])];
}

/** The command of the tunnel that a dry run through IAP names. */
export function iapProxyCommand(
  instance: string,
  { alpha = false, project = 'p', zone = 'us-east5-b' } = {}
): string {
  return `/usr/bin/python3 -S /usr/lib/google-cloud-sdk/lib/gcloud.py${alpha ? ' alpha' : ''} compute start-iap-tunnel ${instance} %p --listen-on-stdin --project=${project} --zone=${zone} --verbosity=warning`;
}

/** `tpu-vm describe --format=json`. */
export function tpuNode(given: object = {}): string {
  return JSON.stringify({
    createTime: '2026-11-20T10:00:00.123Z',
    health: 'HEALTHY',
    id: '4242424242',
    name: 'projects/p/locations/us-east5-b/nodes/my-tpu',
    networkEndpoints: [{ accessConfig: { externalIp: '192.0.2.7' }, ipAddress: '10.202.0.7', port: 8470 }],
    state: 'READY',
    ...given
  });
}

/** `queued-resources describe --format=json`. */
export function queuedResource(state: string, nodeId = 'my-tpu', initiator = 'SERVICE'): string {
  return JSON.stringify({
    createTime: '2026-11-22T20:00:00.000Z',
    name: 'projects/p/locations/us-east5-b/queuedResources/queue',
    state: { state, stateInitiator: initiator },
    tpu: {
      nodeSpec: [
        { node: { acceleratorType: 'v5litepod-4' }, nodeId, parent: 'projects/p/locations/us-east5-b' }
      ]
    }
  });
}

/** For an instance of a group: its state, and the current action of the group. */
export interface ManagedInstance {
  /** Missing while there is no instance. */
  readonly instanceStatus?: string;
  readonly currentAction: string;
}

/** `instance-groups managed list-instances my-group --format=json(instance,instanceStatus,currentAction)`, in no order. */
export function managedInstances(instances: readonly ManagedInstance[]): string {
  const url = 'https://www.googleapis.com/compute/v1/projects/p/zones/us-east5-b/instances';
  const listed = instances.map((one, index) => ({ ...one, instance: `${url}/my-group-${index}` }));
  return JSON.stringify(listed.reverse());
}

/** `tpu-vm get-guest-attributes --query-path=hostkeys/ --format=json`. @param keys of each worker, as `TYPE BASE64` */
export function hostKeyAttributes(...keys: readonly string[]): string {
  return JSON.stringify(
    keys.map((line, worker) => {
      const [key, value] = line.split(' ');
      return { key, namespace: 'hostkeys', value, worker_id: worker };
    })
  );
}

const LOG_IN = `Please run:

  $ gcloud auth login

to obtain new credentials.

If you have already logged in with a different account, run:

  $ gcloud config set account ACCOUNT

to select an already authenticated account to use.
`;

const UNRESOLVED =
  "(Caused by NameResolutionError(\"HTTPSConnection(host='HOST', port=443): Failed to resolve 'HOST' ([Errno -3] Temporary failure in name resolution)\"))";

const unresolved = (host: string, path: string): string =>
  `HTTPSConnectionPool(host='${host}', port=443): Max retries exceeded with url: ${path} ${UNRESOLVED.replaceAll('HOST', host)}`;

/** gcloud's own words below the error of a program that it did not foresee. */
const CRASHED = `
If you would like to report this issue, please run the following command:
  gcloud feedback

To check gcloud for common problems, please run the following command:
  gcloud info --run-diagnostics
`;

/** The failures of a computer that is offline: a token that must be refreshed, and a token that is still valid. */
export const GCLOUD_OFFLINE = {
  refresh: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) There was a problem refreshing your current auth tokens: ${unresolved('oauth2.googleapis.com', '/token')}\n${LOG_IN}`,
  api: `ERROR: gcloud crashed (ConnectionError): ${unresolved('tpu.googleapis.com', '/v2/projects/p/locations/us-east5-b/nodes/my-tpu?alt=json')}\n${CRASHED}`
} as const;

/** A login that has expired, was revoked, or has to be repeated by the rules of an organization. */
export const GCLOUD_EXPIRED = {
  expired: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) There was a problem refreshing your current auth tokens: ('invalid_grant: Token has been expired or revoked.', {'error': 'invalid_grant', 'error_description': 'Token has been expired or revoked.'})\n${LOG_IN}`,
  repeated: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) There was a problem refreshing your current auth tokens: Reauthentication is needed. Please run \`gcloud auth application-default login\` to reauthenticate.\n${LOG_IN}`
} as const;

/** Failures, in the words of the real program. */
export const GCLOUD_FAILURES: Readonly<Record<string, string>> = {
  gcloud_login: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) You do not currently have an active account selected.\n${LOG_IN}`,
  gcloud_project: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) Error parsing [tpu].
The [tpu] resource is not properly specified.
Failed to find attribute [project]. The attribute can be set in the following ways: 
- provide the argument \`tpu\` on the command line with a fully specified name
- provide the argument \`--project\` on the command line
- set the property \`core/project\`
`,
  gcloud_not_found: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) NOT_FOUND: Resource 'projects/p/locations/us-east5-b/nodes/my-tpu' was not found. This command is authenticated as ana@example.com which is the active account specified by the [core/account] property
`,
  gcloud_api_disabled: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) PERMISSION_DENIED: Cloud TPU API has not been used in project 12345 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=12345 then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry. This command is authenticated as ana@example.com which is the active account specified by the [core/account] property.
Google developers console API activation
https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=12345
- '@type': type.googleapis.com/google.rpc.ErrorInfo
  domain: googleapis.com
  metadata:
    consumer: projects/12345
    service: tpu.googleapis.com
  reason: SERVICE_DISABLED
`,
  gcloud_permission: `ERROR: (gcloud.compute.tpus.tpu-vm.describe) PERMISSION_DENIED: Permission 'tpu.nodes.get' denied on 'projects/p/locations/us-east5-b/nodes/my-tpu'. This command is authenticated as ana@example.com which is the active account specified by the [core/account] property
`,
  gcloud_offline: GCLOUD_OFFLINE.api
};

/** An installation without the alpha commands: one that installs components itself but may not write, and one of a package manager. */
export const GCLOUD_NO_ALPHA = {
  component: `You do not currently have this command group installed.  Using it 
requires the installation of components: [alpha]
ERROR: (gcloud) You cannot perform this action because you do not have permission to modify the Google Cloud SDK installation directory [/opt/google-cloud-sdk].
`,
  package: `ERROR: (gcloud) Invalid choice: 'alpha'.
Maybe you meant:
  gcloud alpha
  gcloud compute

To search the help text of gcloud commands, run:
  gcloud help -- SEARCH_TERMS
`
} as const;

/** The node of a queued resource is missing: a traceback, and the exit code 0. */
export const QUEUED_RESOURCE_REFUSED: GcloudAnswer = {
  words: ['queued-resources', 'ssh'],
  code: 0,
  stdout: '',
  stderr: `Exception in thread Thread-1 (PrepareNodeForSSH):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
apitools.base.py.exceptions.HttpNotFoundError: HttpError accessing <https://tpu.googleapis.com/v2/projects/p/locations/us-east5-b/nodes/missing?alt=json>: response: <{'content-type': 'application/json', 'status': 404}>, content <{"error": {"code": 404, "message": "Resource 'projects/p/locations/us-east5-b/nodes/missing' was not found", "status": "NOT_FOUND"}}>
WARNING: Could not prepare all 1 nodes, attempting to ssh into the rest.
Using ssh batch size of 64. Attempting to SSH into 0 nodes with a total of 0 workers.
Completed execution in 0.29203367233276367 seconds
`
};

/**
 * Output of `start-iap-tunnel --listen-on-stdin` when the tunnel does not open: a warning, the error, a traceback, and the exit code 0,
 * whereupon ssh finds its proxy ended.
 *
 * @param why in the words of the relay or the library: `4003: 'failed to connect to backend'`
 */
export function iapRefusal(why: string, more = ''): string {
  return `WARNING: 

To increase the performance of the tunnel, consider installing NumPy. For instructions,
please see https://cloud.google.com/iap/docs/using-tcp-forwarding#increasing_the_tcp_upload_bandwidth

ERROR: [0] Error during local connection to [stdin]: Error while connecting [${why}].${more}
Traceback (most recent call last):
  File "/usr/lib/google-cloud-sdk/lib/googlecloudsdk/command_lib/compute/iap_tunnel.py", line 805, in RunReceiveLocalData
    websocket_conn = self._InitiateConnection(
googlecloudsdk.api_lib.compute.iap_tunnel_websocket.ConnectionCreationError: Error while connecting [${why}].${more}
`;
}

/** …and when gcloud cannot log in. */
export const IAP_NO_LOGIN = `ERROR: (gcloud.compute.start-iap-tunnel) You do not currently have an active account selected.\n${LOG_IN}`;

/** ssh's output after its proxy has ended. */
export const PROXY_CLOSED = `kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
`;
