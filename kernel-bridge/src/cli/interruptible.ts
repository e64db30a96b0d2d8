/** Commands that may run long end in order when they are interrupted. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs `work` with a signal that is aborted by the first interruption; what it rejects with because of that is no failure.
 *
 * @param signals what interrupts it; the others do what they always do
 */
export async function interruptible(
  work: (signal: AbortSignal) => Promise<void>,
  signals: readonly (typeof SIGNALS)[number][] = SIGNALS
): Promise<void> {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  for (const name of signals) process.once(name, abort);
  try {
    await work(controller.signal);
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    for (const name of signals) process.off(name, abort);
  }
}
