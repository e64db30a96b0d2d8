/** The opened chip: meters, the holders of the chips, and actions on the kernel. */
import type { HoldersPage } from '@tpulab/protocol';
import { type JSX, useEffect } from 'react';
import { useChanges } from '../../src/ui/use-changes.js';
import { CommandIDs } from '../page/page-commands.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import type { Runtime } from '../runtime/runtime-model.js';
import { EnvironmentCard } from './environment-card.js';
import { Icon } from './icons.js';
import { RuntimeUsage } from './runtime-usage.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';

export interface RuntimeDetailsProps {
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
    const looking = source?.watch();
    return () => looking?.dispose();
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
              <button type="button" className="tpl-Button" onClick={run(CommandIDs.restart)}>
                {trans.__('Restart…')}
              </button>
              <button type="button" className="tpl-Button" onClick={run(CommandIDs.shutDown)}>
                {trans.__('Shut down…')}
              </button>
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
