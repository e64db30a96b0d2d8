export { Mirrors, type MirrorsOptions, type MirrorTotals } from './mirrors.js';
export type { ReachableGateway } from './kernel-mirror.js';
