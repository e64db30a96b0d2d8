/** How ssh reaches a Colab runtime: through `colab ssh --proxy-mode`, with nothing of the user's own configuration. */
import type { SshTarget } from '../ssh/ssh-config.js';
import { quoted } from '../ssh/ssh-shell.js';
import { PRIVATE_START } from './colab-command.js';
import { explainColab } from './colab-problem.js';
import type { RuntimeFiles } from './runtime-record.js';

/** The ProxyCommand counts as connecting: it logs in, asks the server which runtime there is, and opens a WebSocket. */
const CONNECT_S = 60;

/**
 * Neither `-s`, with which `colab` creates a runtime when it knows none of that name, nor `--rm`, which would end it at every
 * disconnect: without both, the only runtime of this session file is used, and none is ever created.
 */
export function colabTarget(
  program: string,
  session: string,
  files: RuntimeFiles,
  workFolder: string
): SshTarget {
  const command = [program, '--config', files.config, 'ssh', '--proxy-mode', '-i', files.key];
  const start = `export TYPER_STANDARD_TRACEBACK=1; ${PRIVATE_START}`;
  const proxy = ['/bin/sh', '-c', quoted(start), 'sh', ...command.map(quoted)].join(' ');
  const options = [
    `ProxyCommand=${proxy.replaceAll('%', '%%')}`,
    'User=root',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `HostKeyAlias=${session}`,
    `UserKnownHostsFile="${files.knownHosts.replaceAll('%', '%%')}"`,
    // The host key of a new runtime is nowhere to be had; one that was seen must not change.
    'StrictHostKeyChecking=accept-new'
  ];
  return {
    destination: session,
    options: ['-F', 'none', '-i', files.key, ...options.flatMap(option => ['-o', option])],
    connectTimeoutS: CONNECT_S,
    explain: explainColab,
    preamble: `${TPU_VARIABLES}\n[ ! -d ${quoted(workFolder)} ] || export TPULAB_ROOT_DIR=${quoted(workFolder)}`
  };
}

/**
 * A shell of ssh lacks what the container was started with, and libtpu is told by variables which chips there are. No others are
 * taken: they are for Colab's own kernels.
 */
const TPU_VARIABLES = `if [ -r /proc/1/environ ]; then
while IFS= read -r tpulab_pair; do
case $tpulab_pair in *=*) export "$tpulab_pair" ;; esac
done <<TPULAB_END
$(tr '\\0' '\\n' < /proc/1/environ | grep -E '^(TPU_[A-Za-z0-9_]*|PJRT_[A-Za-z0-9_]*|LD_LIBRARY_PATH)=')
TPULAB_END
fi`;
