/** The opened chip: meters, the holders of the chips, and actions on the kernel. */
import { type JSX, useEffect, useId, useState } from 'react';
import type { Kernel } from '@jupyterlab/services';
import { type EnvironmentInfo, type HoldersPage, secondsText } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../../src/ui/use-changes.js';
import { CommandIDs } from '../page/page-commands.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import type { Runtime } from '../runtime/runtime-model.js';
import { Icon } from './icons.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';
import { requestBridge } from '../../src/backends/bridge-request.js';
import { remoteOfPlace, splitSpecName } from '../../src/backends/spec-names.js';
import { pageStorage } from '../../src/platform/page-storage.js';
import { connectedSince, costText, priceOf, Prices } from '../runtime/usage.js';
import { Button } from './plain.js';

interface RuntimeDetailsProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly runtime: Runtime;
  readonly onClose: () => void;
}

export function RuntimeDetails({ page, session, runtime, onClose }: RuntimeDetailsProps): JSX.Element {
  const { commands, managers, access, current, events } = page;
  const { sessionContext } = session.context;
  useSignals(managers.kernelspecs.specsChanged);
  const kernel = current.current;
  const place = kernel.kind === 'bridge' ? kernel.backend.id : 'bridge';
  const machine = events.machineOf(place);
  const source = events.machineSourceOf(place);
  useChanges(machine, false, 1_000);
  useEffect(() => {
    const watching = source?.watch();
    return () => watching?.dispose();
  }, [source]);
  const holders = holdersText(machine?.holders ?? null);
  const run = (id: string) => (): void => {
    onClose();
    void commands.execute(id);
  };
  const specs = Object.values(managers.kernelspecs.specs?.kernelspecs ?? {}).filter(
    spec => spec !== undefined
  );
  const now = sessionContext.session?.kernel?.name;
  return (
    <section className="tpl-RuntimeDetails tpl-Popover" role="dialog" aria-label={trans.__('Runtime')}>
      {runtime.name === null ? null : (
        <div>
          <strong>{runtime.name}</strong>
          <p className="jp-TPULab-quiet">
            {[runtime.kernelName, runtime.detail].filter(Boolean).join(' · ')}
          </p>
        </div>
      )}
      {runtime.gauges.length === 0 ? null : (
        <dl className="tpl-Meters">
          {runtime.gauges.map(({ label, percent, text }) => (
            <div key={label}>
              <dt>
                {{
                  TPU: trans.__('TPU busy'),
                  HBM: trans.__('HBM per chip'),
                  CPU: trans.__('Host CPU'),
                  RAM: 'RAM'
                }[label] ?? label}
              </dt>
              <dd>
                <meter min={0} max={100} value={percent} aria-label={label} />
                <span>{text}</span>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {access.isReadOnly ? null : <RuntimeUsage page={page} isBusy={runtime.tone === 'busy'} />}
      {access.isReadOnly || now === undefined ? null : (
        <EnvironmentCard page={page} path={session.context.path} kernelName={now} />
      )}
      {holders.length === 0 ? null : (
        <>
          <h2>{trans.__('Who holds the TPU')}</h2>
          <ul className="tpl-Holders">
            {holders.map(({ name, detail }) => (
              <li key={name + detail}>
                <strong>{name}</strong>
                <span className="jp-TPULab-quiet">{detail}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {access.isReadOnly ? null : (
        <>
          <h2>{runtime.name === null ? trans.__('Connect to') : trans.__('Change to')}</h2>
          <ul>
            {specs.map(spec => (
              <li key={spec.name}>
                <button
                  type="button"
                  className="jp-TPULabMenu-item"
                  aria-pressed={spec.name === now}
                  onClick={() => {
                    onClose();
                    void sessionContext.changeKernel({ name: spec.name });
                  }}
                >
                  <span className="jp-TPULabMenu-check">
                    {spec.name === now ? <Icon name="check" /> : null}
                  </span>
                  {spec.display_name}
                </button>
              </li>
            ))}
            <li>
              <button type="button" className="jp-TPULabMenu-item" onClick={run(CommandIDs.connect)}>
                <span className="jp-TPULabMenu-check">
                  <Icon name="chip" />
                </span>
                {trans.__('Connect to a TPU…')}
              </button>
            </li>
          </ul>
          {runtime.name === null ? null : (
            <div className="tpl-RuntimeDetails-actions">
              <Button onClick={run(CommandIDs.restart)}>{trans.__('Restart…')}</Button>
              <Button onClick={run(CommandIDs.shutDown)}>{trans.__('Shut down…')}</Button>
            </div>
          )}
        </>
      )}
    </section>
  );
}

/** The holders of the chips, a line each. */
function holdersText(
  page: HoldersPage | null
): readonly { readonly name: string; readonly detail: string }[] {
  return (page?.holders ?? []).map(({ pid, command, kernel }) => ({
    name: kernel?.documents.join(', ') || command || trans.__('process %1', pid),
    detail:
      kernel === null
        ? trans.__('another process, pid %1', pid)
        : trans.__('a kernel of this server, pid %1', pid)
  }));
}

/** In the opened chip: packages that the user has installed into the kernel's environment, and the other notebooks that use it. */
const TIMEOUT_MS = 20_000;

interface CardProps {
  readonly page: SessionPage;
  /** Path of the open notebook. */
  readonly path: string;
  readonly kernelName: string;
}

/** Maximum number of listed notebooks that also use the environment. */
const MAX_NAMED = 3;

function EnvironmentCard({ page, path, kernelName }: CardProps): JSX.Element | null {
  const kernel = page.current.current;
  const settings = kernel.kind === 'bridge' ? kernel.backend.serverSettings : null;
  const specName = splitSpecName(kernelName).name;
  const [added, setAdded] = useState<readonly string[] | null>(null);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    setAdded(null);
    setCopied(false);
    const end = new AbortController();
    const request = requestBridge({
      settings,
      route: 'bridge/v1/environments',
      timeoutMs: TIMEOUT_MS,
      signals: [end.signal]
    });
    const sessions = page.managers.sessions.refreshRunning().catch(() => undefined);
    Promise.all([request, sessions])
      .then(([{ body }]) => {
        const environments = Array.isArray(body) ? (body as EnvironmentInfo[]) : [];
        setAdded(environments.find(({ kernelspec }) => kernelspec === specName)?.added ?? null);
      })
      .catch(() => undefined);
    return () => end.abort();
  }, [page, settings, specName]);
  if (added === null) return null;
  // Most recently opened first.
  const others = [...page.managers.sessions.running()]
    .filter(session => session.kernel?.name === kernelName && session.path !== path)
    .map(session => session.path)
    .reverse();
  const named = others.slice(0, MAX_NAMED).join(', ');
  const unnamed = others.length - MAX_NAMED;
  return (
    <>
      <h2>{trans.__('Packages you added')}</h2>
      {added.length === 0 ? (
        <p className="jp-TPULab-quiet">{trans.__('None. "%pip install NAME" in a cell adds one.')}</p>
      ) : (
        <>
          <ul className="tpl-Packages">
            {added.map(line => {
              const [name = line, version = ''] = line.split(/==| @ /);
              return (
                <li key={line}>
                  <span>{name}</span>
                  <span className="jp-TPULab-quiet">{version}</span>
                </li>
              );
            })}
          </ul>
          <p className="jp-TPULab-quiet">{trans.__('Installed again when the environment is updated.')}</p>
          <Button
            onClick={() =>
              void navigator.clipboard.writeText(`${added.join('\n')}\n`).then(() => setCopied(true))
            }
          >
            {isCopied ? trans.__('Copied') : trans.__('Copy as requirements.txt')}
          </Button>
        </>
      )}
      {others.length === 0 ? null : (
        <p className="jp-TPULab-quiet">
          {unnamed > 0
            ? trans.__('Also used by %1 and %2 more', named, unnamed)
            : trans.__('Also used by %1', named)}
        </p>
      )}
    </>
  );
}

/** In the opened chip: the kernel's age, its idle time, and the cost of its machine. */
const REFRESH_MS = 10_000;

interface UsageProps {
  readonly page: SessionPage;
  readonly isBusy: boolean;
}

function RuntimeUsage({ page, isBusy }: UsageProps): JSX.Element | null {
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
