/** The runtime: one line while closed, meters and actions when opened. Without a kernel, a way to start one. */
import { ServerConnection } from '@jupyterlab/services';
import { URLExt } from '@jupyterlab/coreutils';
import { type JSX, useEffect, useRef, useState } from 'react';
import { percentText } from '@tpulab/protocol';
import { pageStorage } from '../../src/platform/page-storage.js';
import { useChanges } from '../../src/ui/use-changes.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import { connectedSince } from '../runtime/usage.js';
import { type Gauge, type Runtime, runtimeOf } from '../runtime/runtime-model.js';
import { Icon } from './icons.js';
import { RuntimeDetails } from './runtime-details.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';
import { Button } from './plain.js';

/** Interval between two round-trip measurements. */
const EVERY_MS = 15_000;

interface RuntimeChipProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
}

const TONES: Readonly<Record<Runtime['tone'], string>> = {
  live: trans.__('connected, idle'),
  busy: trans.__('connected, busy'),
  waiting: trans.__('reconnecting'),
  lost: trans.__('lost'),
  none: trans.__('not connected')
};

export function RuntimeChip({ page, session }: RuntimeChipProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const chip = useRef<HTMLDivElement>(null);
  const { current, status, events } = page;
  useSignals(
    current.changed,
    status.changed,
    session.timing.changed,
    session.context.sessionContext.connectionStatusChanged
  );
  const kernel = current.current;
  const place = kernel.kind === 'bridge' ? kernel.backend.id : 'bridge';
  const kernelId = kernel.kind === 'bridge' ? kernel.kernelId : null;
  useEffect(() => {
    if (kernelId !== null) connectedSince(pageStorage(), kernelId, Date.now());
  }, [kernelId]);
  useChanges(events.machineOf(place), false, 1_000);
  const roundTrip = useRoundTrip(
    () => (kernel.kind === 'bridge' ? kernel.backend.serverSettings : null),
    place
  );
  const runtime = runtimeOf(page, roundTrip, session.timing.isRunning);
  useEffect(() => {
    if (!isOpen) return;
    const onDown = (event: PointerEvent): void => {
      const target = event.target as Element;
      if (!chip.current?.contains(target) && target.closest('.jp-Dialog') === null) setOpen(false);
    };
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') {
        setOpen(false);
        chip.current?.querySelector('button')?.focus();
      }
    };
    document.addEventListener('pointerdown', onDown, true);
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('pointerdown', onDown, true);
      document.removeEventListener('keydown', onKey);
    };
  }, [isOpen]);
  const { name, tone, detail, gauges, kernelName } = runtime;
  return (
    <div className="tpl-Runtime" ref={chip}>
      {name === null && !page.access.isReadOnly ? (
        <Button kind="primary" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Icon name="chip" />
          <span>{trans.__('Connect')}</span>
        </Button>
      ) : (
        <button
          type="button"
          className={`tpl-Chip jp-mod-${tone}`}
          aria-expanded={isOpen}
          aria-label={trans.__('Runtime: %1, %2, %3', name ?? trans.__('none'), kernelName, TONES[tone])}
          onClick={() => setOpen(!isOpen)}
        >
          <span className="tpl-Chip-dot" />
          <span className="tpl-Chip-names">
            <strong>{name ?? trans.__('No kernel')}</strong>
            <span className="tpl-Chip-detail">{[kernelName, detail].filter(Boolean).join(' · ')}</span>
          </span>
          {gauges.slice(0, 3).map(gauge => (
            <GaugeView key={gauge.label} gauge={gauge} />
          ))}
          <Icon name="down" />
        </button>
      )}
      {isOpen ? (
        <RuntimeDetails page={page} session={session} runtime={runtime} onClose={() => setOpen(false)} />
      ) : null}
    </div>
  );
}

function GaugeView({ gauge: { label, percent, text } }: { readonly gauge: Gauge }): JSX.Element {
  return (
    <span className={`tpl-Gauge jp-mod-${label}`} title={`${label}: ${text}`}>
      <span className="tpl-Gauge-label">{label}</span>
      <span className="tpl-Gauge-value">{percentText(percent)}</span>
      <span className="tpl-Gauge-track">
        <span className="tpl-Gauge-bar" style={{ width: `${Math.min(100, Math.max(0, percent))}%` }} />
      </span>
    </span>
  );
}

/** Round trip of a small request to the kernel's gateway: the shortest of the last few, as a busy page delays others; null: unknown. */
function useRoundTrip(settings: () => ServerConnection.ISettings | null, place: string): number | null {
  const [ms, setMs] = useState<number | null>(null);
  useEffect(() => {
    const last: number[] = [];
    let isOver = false;
    setMs(null);
    const request = async (): Promise<void> => {
      const reached = settings();
      if (document.visibilityState === 'hidden' || reached === null) return;
      const url = URLExt.join(reached.baseUrl, 'bridge/v1/health');
      const since = performance.now();
      try {
        await ServerConnection.makeRequest(url, { signal: AbortSignal.timeout(10_000) }, reached);
        last.push(performance.now() - since);
        if (!isOver) setMs(Math.min(...last.slice(-3)));
      } catch {
        // The connection state already reports that.
      }
    };
    const first = setTimeout(() => void request(), 2_000);
    const timer = setInterval(() => void request(), EVERY_MS);
    return () => {
      isOver = true;
      clearTimeout(first);
      clearInterval(timer);
    };
    // Another place has another network path.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [place]);
  return ms;
}
