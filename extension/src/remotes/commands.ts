/** Ids of the commands for remotes. */
export const CommandIDs = {
  connect: 'tpulab:connect-remote',
  open: 'tpulab:open-remote',
  manage: 'tpulab:remotes',
  sync: 'tpulab:sync-folder'
} as const;
