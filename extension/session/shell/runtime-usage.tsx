/** In the opened chip: the kernel's age, its idle time, and the cost of its machine. */
import { type JSX, useEffect, useId, useState } from 'react';
import type { Kernel } from '@jupyterlab/services';
import { secondsText } from '@tpulab/protocol';
import { pageStorage } from '../../src/platform/page-storage.js';
import { useSeconds } from '../../src/ui/use-changes.js';
import { remoteOfPlace } from '../../src/backends/spec-names.js';
import type { SessionPage } from '../page/session-page.js';
import { connectedSince, costText, priceOf, Prices } from '../runtime/usage.js';
import { trans } from '../text.js';

const REFRESH_MS = 10_000;

interface UsageProps {
  readonly page: SessionPage;
  readonly isBusy: boolean;
}

export function RuntimeUsage({ page, isBusy }: UsageProps): JSX.Element | null {
  const { current, managers } = page;
  const kernel = current.current;
  useSeconds(true);
  useEffect(() => {
    const check = (): void => void managers.kernels.refreshRunning().catch(() => undefined);
    check();
    const timer = setInterval(check, REFRESH_MS);
    return () => clearInterval(timer);
  }, [managers]);
  if (kernel.kind !== 'bridge') return null;
  const now = Date.now();
  const storage = pageStorage();
  const since = connectedSince(storage, kernel.kernelId, now);
  const idleMs = isBusy ? null : idleOf(managers.kernels.running(), kernel.kernelId, now);
  const machine = machineOf(page, kernel.backend.id);
  return (
    <dl className="tpl-Usage">
      <div>
        <dt>{trans.__('Connected')}</dt>
        <dd>{secondsText(now - since)}</dd>
      </div>
      {idleMs === null ? null : (
        <div>
          <dt>{trans.__('Idle')}</dt>
          <dd>{secondsText(idleMs)}</dd>
        </div>
      )}
      {machine === null ? null : (
        <Cost key={machine} machine={machine} prices={new Prices(storage)} ms={now - since} />
      )}
    </dl>
  );
}

interface CostProps {
  readonly machine: string;
  readonly prices: Prices;
  readonly ms: number;
}

function Cost({ machine, prices, ms }: CostProps): JSX.Element {
  const known = prices.of(machine);
  const [text, setText] = useState(known === null ? '' : String(known));
  const id = useId();
  const isWrong = text.trim() !== '' && priceOf(text) === null;
  return (
    <>
      <div>
        <dt>
          <label htmlFor={id}>{trans.__('Price per hour')}</label>
        </dt>
        <dd>
          <input
            id={id}
            className="jp-TPULab-input jp-TPULab-number"
            inputMode="decimal"
            placeholder={trans.__('not known')}
            value={text}
            aria-invalid={isWrong}
            title={trans.__('Of %1, in any currency. It is kept in this browser.', machine)}
            onChange={event => {
              setText(event.currentTarget.value);
              prices.set(machine, priceOf(event.currentTarget.value));
            }}
          />
        </dd>
      </div>
      {known === null ? null : (
        <div>
          <dt>{trans.__('Cost since connected')}</dt>
          <dd>{costText(known, ms)}</dd>
        </div>
      )}
    </>
  );
}

/** Null: unknown. */
function idleOf(running: Iterable<Kernel.IModel>, kernelId: string, now: number): number | null {
  for (const { id, execution_state: state, last_activity: at } of running) {
    if (id === kernelId) {
      return state === 'idle' && at !== undefined ? Math.max(0, now - Date.parse(at)) : null;
    }
  }
  return null;
}

/** The priced unit: the cloud's machine type. Null for a computer without chips, which is not rented by the hour. */
function machineOf({ backends, events }: SessionPage, place: string): string | null {
  const name = remoteOfPlace(place);
  const remote = backends.remotes.all.find(other => other.name === name);
  if (remote) return remote.accelerator?.type ?? remote.name;
  const chips = events.machineOf(place)?.page?.chips ?? [];
  return chips[0] === undefined ? null : `${chips.length} × ${chips[0].name}`;
}
