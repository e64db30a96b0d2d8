/** Runs the user's own gcloud. Its only change is to add the user's key to a machine. */
import type { Cause } from '@tpulab/platform/known-causes.js';
import { explained, type RemoteErrorCode, RemoteProblem } from '../remote-error.js';
import { runProgram } from '../environments/run-program.js';
import { LOGIN, OFFLINE } from '../ssh/explain.js';

/** gcloud starts slowly, and creates a key the first time; it needs minutes to add a key to all hosts of a node. */
const ANSWER_MS = 120_000;
const CHANGE_MS = 5 * 60_000;
/** Limit for each stream: a list of all machines of a project. */
const OUTPUT_LINES = 200_000;

export interface Gcloud {
  /** Returns standard output of a successful command. Throws a `RemoteProblem`. */
  query(args: readonly string[], request: GcloudRequest, signal: AbortSignal): Promise<string>;
  /** Runs a command with side effects. Throws a `RemoteProblem`. */
  change(args: readonly string[], request: GcloudRequest, signal: AbortSignal): Promise<void>;
}

export function gcloudOnPath(program = 'gcloud'): Gcloud {
  const gcloud: Gcloud = {
    query: async (args, request, signal) => {
      const { code, stdout, stderr } = await runToEnd(program, [...args, '--quiet'], signal, ANSWER_MS);
      // `queued-resources ssh` queries its nodes in threads: a refusal is a traceback, and the exit code is 0.
      const isRefused = stdout.trim() === '' && stderr.includes('Traceback (most recent call last)');
      if (code !== 0 || isRefused) throw await withNames(explainGcloud(stderr, request), gcloud, signal);
      return stdout;
    },
    change: async (args, request, signal) => {
      const { code, stderr } = await runToEnd(program, [...args, '--quiet'], signal, CHANGE_MS);
      if (code !== 0) throw await withNames(explainGcloud(stderr, request), gcloud, signal);
    }
  };
  return gcloud;
}

/** A setting of gcloud, which may come from its environment; null if it is not set. */
export async function gcloudSetting(
  gcloud: Gcloud,
  name: 'account' | 'project' | 'compute/zone',
  signal: AbortSignal
): Promise<string | null> {
  const nobody = { project: undefined, zone: undefined };
  const value = (await gcloud.query(['config', 'get-value', name], nobody, signal)).trim();
  return value === '' || value === '(unset)' ? null : value;
}

async function runToEnd(
  program: string,
  args: readonly string[],
  signal: AbortSignal,
  limitMs: number
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const env = { ...process.env, CLOUDSDK_CORE_DISABLE_PROMPTS: '1' };
  try {
    const { exitCode, stdout, stderr, timedOut } = await runProgram({
      command: program,
      args,
      env,
      signal,
      timeoutMs: limitMs,
      maxLines: OUTPUT_LINES
    });
    signal.throwIfAborted();
    if (timedOut) {
      throw new RemoteProblem(
        'gcloud_failed',
        `gcloud did not answer within ${limitMs / 1000} s; check that this computer is online.`
      );
    }
    return { code: exitCode, stdout: stdout.join('\n'), stderr: stderr.join('\n') };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new RemoteProblem(
      'gcloud_missing',
      'The program gcloud is not on the PATH of the server; install the Google Cloud CLI (https://cloud.google.com/sdk/docs/install), or connect with USER@HOST instead.',
      { cause: error }
    );
  }
}

/** Context of a gcloud call, used to explain a refusal. */
interface GcloudRequest {
  readonly name?: string;
  readonly project: string | undefined;
  readonly zone: string | undefined;
  /** Omitted if the call was not about one machine. */
  readonly product?: keyof typeof LISTS | undefined;
}

/** The commands list all zones, because the given zone may be wrong. */
export const LISTS = {
  'tpu-vm': 'tpus tpu-vm list --zone=-',
  'queued-resource': 'tpus queued-resources list --zone=-',
  instance: 'instances list',
  'instance-group': 'instance-groups managed list'
} as const;

/** gcloud's own error text precedes each message. */
const CAUSES: readonly Cause<RemoteErrorCode, GcloudRequest>[] = [
  {
    pattern: OFFLINE,
    code: 'gcloud_offline',
    message: 'Check that this computer is online.'
  },
  {
    // Only alpha commands support IAP for TPU VMs, and not every installation includes them.
    pattern:
      /command group installed\.\s+Using it\s+requires the installation of components: \[alpha\]|Invalid choice: 'alpha'/,
    code: 'gcloud_alpha_missing',
    message:
      'IAP to a TPU VM needs the alpha commands of gcloud. Install them, then connect again. If gcloud came from a package manager (apt, dnf), install the current google-cloud-cli package instead.',
    command: 'gcloud components install alpha'
  },
  {
    pattern: LOGIN,
    code: 'gcloud_login',
    message: 'Log in, then try again.',
    command: 'gcloud auth login'
  },
  {
    pattern: /SERVICE_DISABLED|has not been used in project|API \[[^\]]+\] (is )?not enabled|it is disabled/i,
    code: 'gcloud_api_disabled',
    message: 'Enable the API in the project, wait a minute, then try again.',
    command: ({ facts: { project }, lines }) =>
      `gcloud services enable ${/\b((?:tpu|compute|iap)\.googleapis\.com)\b/.exec(lines.join('\n'))?.[1] ?? 'tpu.googleapis.com'}${project === undefined ? '' : ` --project=${project}`}`
  },
  {
    pattern:
      /required property \[project\]|Failed to find attribute \[project\]|project property is set to the empty|Project .*(not found|does not exist)|Invalid project|CONSUMER_INVALID|Failed to find project|not a valid project/i,
    code: 'gcloud_project',
    message: 'Name the project with --project, or make it the default.',
    command: ({ facts: { project } }) => `gcloud config set project ${project ?? 'PROJECT'}`
  },
  {
    pattern:
      /PERMISSION_DENIED|Permission '[\w.]+' denied|does not have permission|Required '[\w.]+' permission|forbidden|HTTPError 403/i,
    code: 'gcloud_permission',
    message:
      'Your account has no permission for this in the project. Ask an owner of the project to run the command.',
    command: ({ facts: { project, product } }) => grantCommand(project, requiredRole(product))
  },
  {
    pattern:
      /NOT_FOUND|was not found|could not fetch resource|Unknown zone|Invalid value for field 'zone'|Location .* (is not|was not)|invalid location|HTTPError 404/i,
    code: 'gcloud_not_found',
    message: 'Check the name, the zone and the project.',
    command: ({ facts: { project, product = 'tpu-vm' } }) =>
      `gcloud compute ${LISTS[product]}${project === undefined ? '' : ` --project=${project}`}`
  }
];

function requiredRole(product: GcloudRequest['product']): string {
  return product === 'instance' || product === 'instance-group'
    ? 'roles/compute.instanceAdmin.v1'
    : 'roles/tpu.admin';
}

const UNKNOWN_PROJECT = 'PROJECT';
const UNKNOWN_ACCOUNT = 'YOUR_ADDRESS';

/** The command that an owner of the project runs. */
export function grantCommand(project: string | undefined, role: string): string {
  return `gcloud projects add-iam-policy-binding ${project ?? UNKNOWN_PROJECT} --member=user:${UNKNOWN_ACCOUNT} --role=${role}`;
}

/** Completes the command of any problem with gcloud's configured account and project, if the command names none. */
export async function withNames(problem: unknown, gcloud: Gcloud, signal: AbortSignal): Promise<unknown> {
  if (!(problem instanceof RemoteProblem) || problem.command?.includes(UNKNOWN_ACCOUNT) !== true)
    return problem;
  const configured = async (name: 'account' | 'project', form: RegExp): Promise<string | null> => {
    const value = await gcloudSetting(gcloud, name, signal).catch(() => null);
    return value !== null && form.test(value) ? value : null;
  };
  const account = await configured('account', /^[\w.+-]+@[\w.-]+$/);
  const needsProject = problem.command.includes(` ${UNKNOWN_PROJECT} `);
  const project = needsProject ? await configured('project', /^[\w.:-]+$/) : null;
  signal.throwIfAborted();
  const kind = account?.endsWith('.gserviceaccount.com') === true ? 'serviceAccount' : 'user';
  const command = problem.command
    .replace(`user:${UNKNOWN_ACCOUNT}`, given => (account === null ? given : `${kind}:${account}`))
    .replace(` ${UNKNOWN_PROJECT} `, given => (project === null ? given : ` ${project} `));
  const { code, message, recovery, cause } = problem;
  return new RemoteProblem(code, message, { command, recovery, cause });
}

/** Explains why gcloud refused: its own message and the remedy. */
export function explainGcloud(stderr: string, request: GcloudRequest): RemoteProblem {
  const output = shortened(stderr);
  const cause = explained(CAUSES, stderr.split('\n'), request);
  if (cause !== null) {
    const command = cause.command ?? undefined;
    return new RemoteProblem(cause.code, `gcloud says: ${output} ${cause.message}`, { command });
  }
  return new RemoteProblem(
    'gcloud_failed',
    `gcloud says: ${output === '' ? 'nothing, and fails.' : output} Run it in a terminal to see more.`
  );
}

/** The error itself, on one line, without the surrounding output of gcloud. */
function shortened(stderr: string): string {
  const start = stderr.search(/^ERROR:/m);
  // For a traceback, the last line that names an exception.
  const raised = stderr.match(/^[\w.]+(?:Error|Exception): .*$/gm)?.at(-1);
  const text = (start < 0 && raised !== undefined ? raised : stderr.slice(Math.max(0, start)))
    .replace(/\s+/g, ' ')
    .trim();
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
}
