/** How much is kept of what kernels said, and for how long. */
import { JOURNAL_LIMITS, MIN_KERNEL_BYTES } from '../journal/journal-limits.js';
import { named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

export const JOURNAL_SETTINGS = {
  journalKernelBytes: {
    ...named(['Journal'], 'kernel_bytes'),
    variable: 'TPULAB_JOURNAL_KERNEL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.kernelBytes,
    help: "size limit of one kernel's journal in bytes; beyond it, the oldest records are deleted"
  },
  journalTotalBytes: {
    ...named(['Journal'], 'total_bytes'),
    variable: 'TPULAB_JOURNAL_TOTAL_BYTES',
    kind: kinds.bytes(MIN_KERNEL_BYTES),
    fallback: JOURNAL_LIMITS.totalBytes,
    help: 'size limit of all journals in bytes; beyond it, journals of ended kernels are deleted first'
  },
  journalRetentionDays: {
    ...named(['Journal'], 'retention_days'),
    variable: 'TPULAB_JOURNAL_RETENTION_DAYS',
    kind: kinds.number({ what: 'days', min: 0, max: 36_500, whole: false }),
    fallback: JOURNAL_LIMITS.retentionMs / 86_400_000,
    help: 'days to keep a journal after its kernel has ended'
  }
} satisfies Partial<SettingTable>;
