/** The dialog's states, as the gateway reports them: real answers of the protocol's types, about machines that do not exist here. */
import type {
  EnvironmentCreation,
  EnvironmentInfo,
  HoldersPage,
  Remote,
  RemoteCandidates,
  RemoteStage,
  SyncPlan
} from '@tpulab/protocol';

const NOW = Date.now();
const PROJECT = 'my-project';
const MIB = 2 ** 20;

const machine = (
  name: string,
  zone: string,
  acceleratorType: string,
  state: string,
  spot = false
): RemoteCandidates['gcloud']['machines'][number] => ({
  source: { kind: 'gcloud', product: 'tpu-vm', name, zone, project: PROJECT },
  acceleratorType,
  state,
  ...(spot && { spot })
});

export const CANDIDATES: RemoteCandidates = {
  sshHosts: ['lab-tpu', 'a-host-with-a-name-that-is-far-too-long-for-one-line.of-a-lab.university.example'],
  gcloud: {
    state: 'ok',
    message: null,
    remedy: null,
    project: PROJECT,
    machines: [
      machine('train-v6e', 'us-east5-b', 'v6e-4', 'READY'),
      machine('big-v5p', 'us-east5-a', 'v5p-8', 'STOPPED'),
      machine('new-v5e', 'us-west4-a', 'v5e-4', 'CREATING', true)
    ]
  },
  colab: { state: 'ok', message: null, remedy: null, accelerators: ['v5e1', 'v6e1'] }
};

export const NO_GCLOUD: RemoteCandidates = {
  sshHosts: [],
  gcloud: {
    state: 'failed',
    message: 'gcloud is not signed in.',
    remedy: 'gcloud auth login',
    project: null,
    machines: []
  },
  colab: {
    state: 'missing',
    message: 'The "colab" command is not on this machine. Install it, then log in with "colab usage".',
    remedy: 'uv tool install google-colab-cli',
    accelerators: ['v5e1', 'v6e1']
  }
};

const TRAIN: Remote = {
  name: 'train-v6e',
  source: { kind: 'gcloud', product: 'tpu-vm', name: 'train-v6e', zone: 'us-east5-b' },
  hosts: ['ada@198.51.100.23'],
  environment: 'jax',
  install: true,
  state: 'connecting',
  stages: [],
  checks: [],
  error: null,
  prompt: null,
  notice: null,
  nextAttemptAt: null,
  connectedAt: null,
  lastConnectedAt: null,
  roundTripMs: null,
  accelerator: null,
  gatewayId: null,
  mirror: { kernels: 0, bytes: 0, behindBytes: 0 }
};

/** Remotes of earlier days. */
export const RECENT: readonly Remote[] = [
  {
    ...TRAIN,
    name: 'my-tpu',
    source: { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'us-west4-a' },
    state: 'connected',
    connectedAt: NOW,
    lastConnectedAt: NOW,
    roundTripMs: 21,
    accelerator: { type: 'v5litepod-8', chip: 'v5e', chips: 8 },
    gatewayId: 'far'
  },
  {
    ...TRAIN,
    name: 'spot-v6e',
    source: { kind: 'gcloud', product: 'tpu-vm', name: 'spot-v6e', zone: 'us-east5-a' },
    state: 'preempted',
    lastConnectedAt: NOW - 2.2 * 3_600_000,
    accelerator: { type: 'v6e-4', chip: 'v6e', chips: 4 },
    mirror: { kernels: 2, bytes: 81_000, behindBytes: 0 }
  }
];

const stage = (
  name: string,
  state: RemoteStage['state'],
  detail: string | null = null,
  durationMs?: number
): RemoteStage => ({
  name,
  title: name,
  state,
  detail,
  fraction: null,
  ...(durationMs !== undefined && { durationMs })
});
const FOUND = stage('gcloud', 'done', 'v6e-4, us-east5-b', 1_400);
const LOGGED_IN = stage('ssh', 'done', 'external IP', 900);
const INSTALLED = [
  FOUND,
  LOGGED_IN,
  stage('check', 'done', '4 × v6e, 88.0 GiB disk free, 1 warning', 600),
  stage('node', 'done', '22.21.1, downloaded by the machine', 3_100),
  stage('bridge', 'done', '0.1.0', 400),
  stage('uv', 'done', '0.9.7, downloaded by the machine', 1_900),
  stage('python', 'done', '/usr/bin/python3.11', 300)
];
const CHECKS: Remote['checks'] = [
  { name: 'chips', state: 'ok', message: '4 × v6e', remedy: null },
  {
    name: 'log-out',
    state: 'warning',
    message: 'the system may end your programs when you log out',
    remedy: 'Run "sudo loginctl enable-linger ada" there once.'
  }
];

/** The remote that is being connected, in each state. */
export const STATES = {
  progress: {
    ...TRAIN,
    state: 'setting-up',
    checks: CHECKS,
    stages: [
      ...INSTALLED,
      {
        ...stage('environment', 'running', 'Downloading libtpu (312 MiB)'),
        fraction: 0.28,
        transfer: { bytes: 312 * MIB, totalBytes: 660 * MIB, bytesPerS: 42 * MIB }
      }
    ]
  },
  question: {
    ...TRAIN,
    state: 'waiting',
    stages: [FOUND, stage('ssh', 'running')],
    prompt: {
      id: 'key',
      kind: 'confirm',
      text: 'Are you sure you want to continue connecting (yes/no/[fingerprint])? ',
      host: 'train-v6e',
      hostKey: {
        type: 'ED25519',
        fingerprint: 'SHA256:zI1bIMiw3c4KwYeXA2e14JdZmgLn8Njh4X5x6hedC2c',
        address: '198.51.100.23',
        command: 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub'
      }
    }
  },
  passphrase: {
    ...TRAIN,
    state: 'waiting',
    stages: [FOUND, stage('ssh', 'running')],
    prompt: {
      id: 'secret',
      kind: 'secret',
      text: "Enter passphrase for key '~/.ssh/google_compute_engine': ",
      host: 'train-v6e'
    }
  },
  consent: {
    ...TRAIN,
    source: { kind: 'colab', accelerator: 'v5e1' },
    state: 'waiting',
    stages: [
      { ...stage('colab', 'done', '0.7.5', 1_200), title: 'Colab command' },
      { ...stage('colab-account', 'done', '8.8 compute units left', 900), title: 'Colab account' }
    ],
    prompt: {
      id: 'terms',
      kind: 'consent',
      text: 'Create a Colab runtime with a TPU v5e1?',
      host: 'train-v6e',
      consent: {
        title: 'Create a Colab runtime with a TPU v5e1?',
        terms: [
          'Colab allows SSH and other web interfaces only with a positive balance of compute units.',
          'The runtime uses compute units until you end it, even while nothing runs and while this computer is off.'
        ],
        figures: [
          { name: 'balance', label: 'Balance', value: 8.8, unit: 'compute units' },
          { name: 'rate', label: 'Used now', value: 0, unit: 'compute units/h' },
          { name: 'hours-left', label: 'Time left at this rate', value: null, unit: 'h' },
          { name: 'runtimes', label: 'Running runtimes', value: 0, unit: '' }
        ],
        accept: 'Create runtime',
        source: 'https://research.google.com/colaboratory/faq.html'
      }
    }
  },
  failure: {
    ...TRAIN,
    state: 'failed',
    stages: [FOUND, stage('ssh', 'failed', null, 700)],
    error: {
      code: 'remote_auth_refused',
      message:
        'train-v6e did not accept your ssh key. Run this once in a terminal; it adds your key to the VM. Then try again.',
      command:
        'gcloud compute tpus tpu-vm ssh train-v6e --zone=us-east5-b --project=my-project --command=true'
    }
  },
  reconnecting: {
    ...TRAIN,
    state: 'reconnecting',
    stages: [FOUND, LOGGED_IN],
    nextAttemptAt: NOW + 3_600_000,
    lastConnectedAt: NOW,
    error: { code: 'remote_lost', message: 'The connection to train-v6e was lost.', command: null }
  },
  done: {
    ...TRAIN,
    state: 'connected',
    stages: [
      ...INSTALLED,
      stage('environment', 'done', 'for TPU', 94_000),
      stage('gateway', 'done', null, 2_100)
    ],
    checks: CHECKS,
    connectedAt: NOW,
    lastConnectedAt: NOW,
    roundTripMs: 38,
    accelerator: { type: 'v6e-4', chip: 'v6e', chips: 4 },
    gatewayId: 'far'
  }
} as const satisfies Record<string, Remote>;

/** This machine, without any of our environments. */
export const BARE: readonly EnvironmentInfo[] = [
  {
    name: 'jax',
    displayName: 'JAX (XLA) on this machine',
    state: 'available',
    path: null,
    kernelspec: 'tpulab-jax',
    detail: null,
    diskMiB: 1_200
  }
];

const IDLE: EnvironmentCreation = {
  name: 'jax',
  state: 'idle',
  stages: [],
  detail: null,
  error: null,
  fraction: null,
  transfer: null
};
const VENV = { title: 'making the environment', state: 'done', startedAt: NOW, endedAt: NOW + 900 } as const;
const PACKAGES = { title: 'installing 62 packages', startedAt: NOW + 900 } as const;

/** "Set up JAX on this machine", in each state. */
export const SETUPS = {
  idle: IDLE,
  running: {
    ...IDLE,
    state: 'running',
    stages: [VENV, { ...PACKAGES, state: 'running', endedAt: null }],
    detail: 'Downloading jaxlib (81.1 MiB)',
    fraction: 0.3,
    transfer: { bytes: 120 * MIB, totalBytes: 240 * MIB, bytesPerS: 14 * MIB }
  },
  failed: {
    ...IDLE,
    state: 'failed',
    stages: [VENV, { ...PACKAGES, state: 'failed', endedAt: NOW + 60_000 }],
    error: {
      code: 'env_network',
      message:
        'The package index could not be reached while installing packages. Check that this computer is online.'
    }
  },
  done: {
    ...IDLE,
    state: 'done',
    stages: [VENV, { ...PACKAGES, state: 'done', endedAt: NOW + 60_000 }],
    fraction: 1
  }
} as const satisfies Record<string, EnvironmentCreation>;

export const PLAN: SyncPlan = {
  localFolder: '/here/notebooks',
  remoteFolder: 'notebooks',
  changes: [],
  files: 14,
  newer: 0,
  deletions: 0,
  leftOut: [{ path: 'caf\\xe9.wav', reason: 'cannot be read', failed: true }],
  leftOutCount: 1,
  bytes: 38 * MIB
};

export const NOBODY: HoldersPage = {
  chips: 4,
  holders: [],
  lock: { path: '/tmp/libtpu_lockfile', state: 'none', owner: null, pids: [] }
};

export const HELD: HoldersPage = {
  ...NOBODY,
  holders: [
    {
      pid: 812,
      user: 'ada',
      command: 'python -m tpulab',
      nodes: ['/dev/vfio/0'],
      holdsLock: true,
      kernelId: 'k',
      kernel: {
        id: 'k',
        name: 'tpulab-jax',
        executionState: 'idle',
        idleS: 2_520,
        connections: 1,
        documents: ['lessons/03-profiling.ipynb']
      }
    },
    {
      pid: 9_377,
      user: 'bob',
      command: 'python train.py --config=a-configuration-with-a-long-name.yaml',
      nodes: ['/dev/vfio/1'],
      holdsLock: false,
      kernelId: null,
      kernel: null
    }
  ]
};
