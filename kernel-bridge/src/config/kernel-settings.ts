/** How kernels are started and ended. */
import { CULLING_DEFAULTS } from '../kernels/kernel-culling.js';
import { KERNEL_MANAGERS, MAX_TIMER_S, MIB, named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

const CULLERS = ['MappingKernelManager', 'AsyncMappingKernelManager'];

export const KERNEL_SETTINGS = {
  defaultKernel: {
    ...named(KERNEL_MANAGERS, 'default_kernel_name'),
    flag: '--default-kernel <name>',
    variable: 'TPULAB_DEFAULT_KERNEL',
    kind: kinds.text('the name of a kernelspec'),
    fallback: null,
    fallbackWords: 'a TPULab environment, else python3',
    help: 'kernelspec to start if the client names none'
  },
  clientEnvs: {
    ...named(['Bridge'], 'client_envs'),
    variable: 'TPULAB_CLIENT_ENVS',
    kind: kinds.list('the name of a variable', item => (/^[A-Za-z_]\w*$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'variables that a request may set for the kernel it starts, in addition to KERNEL_*'
  },
  iopubQueue: {
    ...named(['Bridge'], 'iopub_queue'),
    variable: 'TPULAB_IOPUB_QUEUE',
    kind: kinds.text('unbounded or block', given => given === 'unbounded' || given === 'block'),
    fallback: null,
    fallbackWords: 'what the kernelspec says, else unbounded',
    help: "what a kernel does when it prints faster than it is read: queue without limit, or wait (kernels started by TPULab's launcher)"
  },
  iopubAlarmBytes: {
    ...named(['Bridge'], 'iopub_alarm_bytes'),
    variable: 'TPULAB_IOPUB_ALARM_BYTES',
    kind: kinds.bytes(0),
    fallback: 256 * MIB,
    help: 'queued output in bytes at which the user is warned, and again each time it doubles; 0: never'
  },
  cullIdleTimeoutS: {
    ...named(CULLERS, 'cull_idle_timeout'),
    variable: 'TPULAB_CULL_IDLE_TIMEOUT',
    kind: kinds.number({ what: 'seconds', min: 0, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.idleTimeoutS,
    help: 'seconds without a message after which an idle kernel is shut down; 0: never'
  },
  cullIntervalS: {
    ...named(CULLERS, 'cull_interval'),
    variable: 'TPULAB_CULL_INTERVAL',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.intervalS,
    help: 'seconds between checks for idle kernels'
  },
  cullConnected: {
    ...named(CULLERS, 'cull_connected'),
    variable: 'TPULAB_CULL_CONNECTED',
    kind: kinds.truth,
    fallback: CULLING_DEFAULTS.connected,
    help: 'shut down idle kernels even if clients are connected'
  },
  shutdownWaitS: {
    ...named(['KernelManager', 'AsyncKernelManager', 'ServerKernelManager'], 'shutdown_wait_time'),
    variable: 'TPULAB_SHUTDOWN_WAIT',
    kind: kinds.number({ what: 'seconds', min: 0, max: 3600, whole: false }),
    fallback: 5,
    help: 'seconds a kernel has to shut down before it is killed; 0: killed at once'
  },
  restartLimit: {
    ...named(['KernelRestarter', 'AsyncIOLoopKernelRestarter'], 'restart_limit'),
    variable: 'TPULAB_RESTART_LIMIT',
    kind: kinds.number({ what: 'a count', min: 0, max: 1000, whole: true }),
    fallback: 5,
    help: 'how many times in a row a crashing kernel is restarted'
  },
  spareKeeper: {
    ...named(['Bridge'], 'spare_keeper'),
    variable: 'TPULAB_SPARE_KEEPER',
    kind: kinds.truth,
    fallback: true,
    help: 'keep a process ready so that the next kernel starts sooner; takes about 50 MB'
  }
} satisfies Partial<SettingTable>;
