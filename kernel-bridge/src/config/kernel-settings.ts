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
    fallbackWords: 'an environment of ours, else python3',
    help: 'kernelspec to start when a client names none'
  },
  clientEnvs: {
    ...named(['Bridge'], 'client_envs'),
    variable: 'TPULAB_CLIENT_ENVS',
    kind: kinds.list('the name of a variable', item => (/^[A-Za-z_]\w*$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'variables that a request may set for the kernel that it starts, beside KERNEL_*'
  },
  iopubQueue: {
    ...named(['Bridge'], 'iopub_queue'),
    variable: 'TPULAB_IOPUB_QUEUE',
    kind: kinds.text('unbounded or block', given => given === 'unbounded' || given === 'block'),
    fallback: null,
    fallbackWords: 'what the kernelspec says, else unbounded',
    help: 'what a kernel of our launcher does that prints faster than anybody reads: queue without bound, or wait'
  },
  iopubAlarmBytes: {
    ...named(['Bridge'], 'iopub_alarm_bytes'),
    variable: 'TPULAB_IOPUB_ALARM_BYTES',
    kind: kinds.bytes(0),
    fallback: 256 * MIB,
    help: 'memory that waiting outputs of such a kernel may take before its user is told, and again at each doubling; 0: never'
  },
  cullIdleTimeoutS: {
    ...named(CULLERS, 'cull_idle_timeout'),
    variable: 'TPULAB_CULL_IDLE_TIMEOUT',
    kind: kinds.number({ what: 'seconds', min: 0, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.idleTimeoutS,
    help: 'seconds without a message after which a kernel that is idle is shut down; 0: never'
  },
  cullIntervalS: {
    ...named(CULLERS, 'cull_interval'),
    variable: 'TPULAB_CULL_INTERVAL',
    kind: kinds.number({ what: 'seconds', min: 1, max: MAX_TIMER_S, whole: false }),
    fallback: CULLING_DEFAULTS.intervalS,
    help: 'seconds between two looks for such kernels'
  },
  cullConnected: {
    ...named(CULLERS, 'cull_connected'),
    variable: 'TPULAB_CULL_CONNECTED',
    kind: kinds.truth,
    fallback: CULLING_DEFAULTS.connected,
    help: 'shut such kernels down although clients are attached'
  },
  shutdownWaitS: {
    ...named(['KernelManager', 'AsyncKernelManager', 'ServerKernelManager'], 'shutdown_wait_time'),
    variable: 'TPULAB_SHUTDOWN_WAIT',
    kind: kinds.number({ what: 'seconds', min: 0, max: 3600, whole: false }),
    fallback: 5,
    help: 'seconds that a kernel has to end by itself before it is killed; 0: none'
  },
  restartLimit: {
    ...named(['KernelRestarter', 'AsyncIOLoopKernelRestarter'], 'restart_limit'),
    variable: 'TPULAB_RESTART_LIMIT',
    kind: kinds.number({ what: 'a count', min: 0, max: 1000, whole: true }),
    fallback: 5,
    help: 'how often in a row a kernel that crashes is started again'
  },
  spareKeeper: {
    ...named(['Bridge'], 'spare_keeper'),
    variable: 'TPULAB_SPARE_KEEPER',
    kind: kinds.truth,
    fallback: true,
    help: 'hold a process ready for the next kernel, which then starts sooner; it takes some 50 MB'
  }
} satisfies Partial<SettingTable>;
