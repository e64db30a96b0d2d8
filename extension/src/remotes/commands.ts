/** Ids of the commands for remotes. */
export const CommandIDs = {
  connect: 'tpulab:connect-remote',
  manage: 'tpulab:remotes',
  sync: 'tpulab:sync-folder'
} as const;
