/** The devices' work during two seconds, by XLA operation, as traced by XProf. */
import { countText, durationText, percentText, type ProfileMessage } from '@tpulab/protocol';
import type { JSX } from 'react';
import { trans } from '../text/trans.js';

interface TraceViewProps {
  readonly profile: ProfileMessage;
}

export function TraceView({ profile }: TraceViewProps): JSX.Element {
  const { durationMs, busyMs, operations, devices, folder } = profile;
  const head =
    devices > 0
      ? trans._n(
          '%2 traced on %1 device, operations took %3',
          '%2 traced on %1 devices, operations took %3',
          devices,
          durationText(durationMs),
          durationText(busyMs)
        )
      : trans.__(
          '%1 traced, operations took %2 on threads of the host',
          durationText(durationMs),
          durationText(busyMs)
        );
  return (
    <details className="jp-TPULabTrace" open>
      <summary>{head}</summary>
      {operations.length === 0 ? (
        <p>{trans.__('No operation ran during the trace. Record it while a cell runs.')}</p>
      ) : (
        <ol aria-label={trans.__('Slowest operations')}>
          {operations.map(({ name, module, count, totalMs }) => (
            <li key={`${module} ${name}`} className="jp-TPULab-row">
              <span>
                <code>{name}</code> <span className="jp-TPULab-quiet">{module}</span>
              </span>
              <span className="jp-TPULab-number">
                {countText(count)} × · {durationText(totalMs)} ·{' '}
                {percentText(busyMs > 0 ? (totalMs / busyMs) * 100 : 0)}
              </span>
            </li>
          ))}
        </ol>
      )}
      <p className="jp-TPULab-quiet">
        {trans.__("Full trace on the kernel's machine, for tensorboard or xprof --logdir:")}{' '}
        <code>{folder}</code>
      </p>
    </details>
  );
}
