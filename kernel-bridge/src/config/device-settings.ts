/** What is looked at of the machine and its chips. */
import { MAX_SAMPLE_HZ, SAMPLE_HZ } from '../devices/index.js';
import { named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

export const DEVICE_SETTINGS = {
  checkpointOnNotice: {
    ...named(['Bridge'], 'checkpoint_on_notice'),
    variable: 'TPULAB_CHECKPOINT_ON_NOTICE',
    kind: kinds.truth,
    fallback: true,
    help: 'ask runs for a checkpoint when the cloud announces that it will preempt or stop this machine'
  },
  sampleHz: {
    ...named(['Bridge'], 'sample_hz'),
    variable: 'TPULAB_SAMPLE_HZ',
    kind: kinds.number({ what: 'samples a second', min: 0, max: MAX_SAMPLE_HZ, whole: false }),
    fallback: SAMPLE_HZ,
    help: 'samples of the machine and its chips per second while a page is open; 0: only on request'
  },
  chipTable: {
    ...named(['Bridge'], 'chip_table'),
    flag: '--chip-table <file>',
    variable: 'TPULAB_CHIP_TABLE',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackWords: 'none',
    help: 'JSON file that corrects or extends the table of chips (docs/devices.md)'
  }
} satisfies Partial<SettingTable>;
