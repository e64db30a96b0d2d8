/** Ids of commands that several features use. */
export const CommandIDs = {
  showPanel: 'tpulab:show-panel',
  reconnect: 'tpulab:reconnect',
  documentation: 'tpulab:documentation',
  goToCell: 'tpulab:go-to-cell',
  openRuns: 'tpulab:open-runs',
  openDashboard: 'tpulab:open-dashboard',
  connect: 'tpulab:connect-remote',
  open: 'tpulab:open-remote',
  manage: 'tpulab:remotes',
  sync: 'tpulab:sync-folder',
  checkpoint: 'tpulab:take-checkpoint',
  allowNotices: 'tpulab:allow-notifications',
  runAgain: 'tpulab:restart-and-run-again'
} as const;
