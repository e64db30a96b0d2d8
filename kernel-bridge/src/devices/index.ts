export { ChipHolders, type ChipHoldersOptions, type FoundHolder } from './chip-holders.js';
export { MachineSampler, MAX_SAMPLE_HZ, SAMPLE_HZ, type SamplerOptions } from './machine-sampler.js';
export { CloudNotices, type CloudNoticesOptions } from './cloud-notices.js';
