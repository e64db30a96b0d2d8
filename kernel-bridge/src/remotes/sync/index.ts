/** Folders that are made the same here and on a remote. */
export { SyncJobs } from './sync-jobs.js';
