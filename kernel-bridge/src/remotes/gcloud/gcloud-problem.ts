/** What gcloud says when it does not do what it was asked, in its own words and with what to do. */
import { RemoteProblem, type RemoteErrorCode } from '../remote-error.js';

export interface Asked {
  readonly project: string | undefined;
  readonly zone: string | undefined;
  /** Absent: it was not one machine that was asked for. */
  readonly product?: keyof typeof LISTS | undefined;
}

/** The zone may be what is wrong, so all of them are listed. */
const LISTS = {
  'tpu-vm': 'tpus tpu-vm list --zone=-',
  'queued-resource': 'tpus queued-resources list --zone=-',
  instance: 'instances list',
  'instance-group': 'instance-groups managed list'
} as const;

interface Reason {
  readonly pattern: RegExp;
  readonly code: RemoteErrorCode;
  readonly remedy: string;
  readonly command?: (asked: Asked, words: string) => string;
}

const LOGIN =
  /do not currently have an active account|does not have any valid credentials|Reauthentication|refreshing your current auth tokens|invalid_grant|could not find default credentials|UNAUTHENTICATED|gcloud auth login/i;

const REASONS: readonly Reason[] = [
  {
    pattern: LOGIN,
    code: 'gcloud_login',
    remedy: 'Log in, then try again.',
    command: () => 'gcloud auth login'
  },
  {
    pattern: /SERVICE_DISABLED|has not been used in project|API \[[^\]]+\] (is )?not enabled|it is disabled/i,
    code: 'gcloud_api_disabled',
    remedy: 'Enable the API in the project, wait a minute, then try again.',
    command: ({ project }, words) =>
      `gcloud services enable ${/\b((?:tpu|compute|iap)\.googleapis\.com)\b/.exec(words)?.[1] ?? 'tpu.googleapis.com'}${project === undefined ? '' : ` --project=${project}`}`
  },
  {
    pattern:
      /required property \[project\]|project property is set to the empty|Project .*(not found|does not exist)|Invalid project|CONSUMER_INVALID|Failed to find project|not a valid project/i,
    code: 'gcloud_project',
    remedy: 'Name the project with --project, or make it the default.',
    command: ({ project }) => `gcloud config set project ${project ?? 'PROJECT'}`
  },
  {
    pattern:
      /PERMISSION_DENIED|does not have permission|Required '[\w.]+' permission|forbidden|HTTPError 403/i,
    code: 'gcloud_permission',
    remedy:
      'Ask an owner of the project for the roles TPU Admin (roles/tpu.admin) and Compute Instance Admin (roles/compute.instanceAdmin.v1), or use another account.'
  },
  {
    pattern:
      /NOT_FOUND|was not found|could not fetch resource|Unknown zone|Invalid value for field 'zone'|Location .* (is not|was not)|invalid location|HTTPError 404/i,
    code: 'gcloud_not_found',
    remedy: 'Check the name, the zone and the project.',
    command: ({ project, product = 'tpu-vm' }) =>
      `gcloud compute ${LISTS[product]}${project === undefined ? '' : ` --project=${project}`}`
  }
];

export function explainGcloud(stderr: string, asked: Asked): RemoteProblem {
  const words = shortened(stderr);
  for (const { pattern, code, remedy, command } of REASONS) {
    if (!pattern.test(stderr)) continue;
    return new RemoteProblem(code, `gcloud says: ${words} ${remedy}`, {
      ...(command ? { command: command(asked, stderr) } : {})
    });
  }
  return new RemoteProblem(
    'gcloud_failed',
    `gcloud says: ${words === '' ? 'nothing, and fails.' : words} Run it in a terminal to see more.`
  );
}

/** The error itself, on one line, without what gcloud prints around it. */
function shortened(stderr: string): string {
  const text = stderr
    .slice(Math.max(0, stderr.search(/^ERROR:/m)))
    .replace(/\s+/g, ' ')
    .trim();
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
}
