/** Ids of the commands for runs. */
export const CommandIDs = {
  checkpoint: 'tpulab:take-checkpoint'
} as const;
