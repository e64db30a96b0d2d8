export { ChipHolders, type ChipHoldersOptions, type FoundHolder } from './chip-holders.js';
export { ChipTable } from './chip-table.js';
export { DeviceError, type DeviceErrorCode } from './chip-table.js';
export { HostOnly } from './host-only.js';
export { MachineSampler, MAX_SAMPLE_HZ, SAMPLE_HZ, type SamplerOptions } from './machine-sampler.js';
export { CloudNotices, type CloudNoticesOptions } from './cloud-notices.js';
