export * from './journal-error.js';
export * from './journal-reader.js';
export * from './journal-writer.js';
export { explainMissing, type NumberedGap, recordOfGap } from './missing-records.js';
export type { WrittenBatch } from './record-batch.js';
export * from './record.js';
export type { JournalCut } from './repair.js';
