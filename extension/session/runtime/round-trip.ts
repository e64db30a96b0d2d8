/** How long a small request to the gateway of the kernel takes, asked while somebody looks at the page. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { useEffect, useState } from 'react';

const EVERY_MS = 15_000;

/** The shortest of the last few, as a busy page makes others longer; null while it is not known. */
export function useRoundTrip(
  settings: () => ServerConnection.ISettings | null,
  place: string
): number | null {
  const [ms, setMs] = useState<number | null>(null);
  useEffect(() => {
    const last: number[] = [];
    let isOver = false;
    setMs(null);
    const ask = async (): Promise<void> => {
      const reached = settings();
      if (document.visibilityState === 'hidden' || reached === null) {
        return;
      }
      const url = URLExt.join(reached.baseUrl, 'bridge/v1/health');
      const since = performance.now();
      try {
        await ServerConnection.makeRequest(url, { signal: AbortSignal.timeout(10_000) }, reached);
        last.push(performance.now() - since);
        if (!isOver) {
          setMs(Math.min(...last.slice(-3)));
        }
      } catch {
        // The state of the connection says that.
      }
    };
    const first = setTimeout(() => void ask(), 2_000);
    const timer = setInterval(() => void ask(), EVERY_MS);
    return () => {
      isOver = true;
      clearTimeout(first);
      clearInterval(timer);
    };
    // Another place is another way.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [place]);
  return ms;
}
