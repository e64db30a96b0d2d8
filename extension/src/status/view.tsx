/** Two items of the status bar: the connection of the current kernel, and its devices. */
import type { JSX } from 'react';
import { summaryText } from '../devices/model.js';
import { type DevicesSummary, summaryOf, tilesOf } from '../devices/tiles.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { MachineTelemetry } from '../devices/machine-telemetry.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import type { StatusModel } from './model.js';
import { type Connection, connectionText } from './connection.js';
import { trans } from '../text/trans.js';

interface ConnectionItemProps {
  readonly model: StatusModel;
  readonly onReconnect: () => void;
}

export function ConnectionItem({ model, onReconnect }: ConnectionItemProps): JSX.Element | null {
  useChanges(model, false);
  const { connection } = model;
  useSeconds(connection.kind === 'reconnecting');
  const text = connectionText(connection, Date.now());
  if (!text) return null;
  const { label, detail, canReconnect } = text;
  const content = (
    <>
      <Mark kind={connection.kind} />
      <span className="jp-TPULab-number">{label}</span>
    </>
  );
  const className = `jp-TPULabStatus jp-mod-${connection.kind}`;
  return canReconnect ? (
    <button type="button" className={className} title={detail} onClick={onReconnect}>
      {content}
    </button>
  ) : (
    <span className={className} title={detail}>
      {content}
    </span>
  );
}

interface DevicesItemProps {
  readonly model: StatusModel;
  readonly onShow: () => void;
}

/** Draws nothing while no device is known: a kernel that does not use JAX has none, which is ordinary. */
export function DevicesItem({ model, onShow }: DevicesItemProps): JSX.Element | null {
  useChanges(model, false);
  const { telemetry, machine } = model;
  return telemetry ? <Devices telemetry={telemetry} machine={machine} onShow={onShow} /> : null;
}

interface DevicesProps {
  readonly telemetry: KernelTelemetry;
  readonly machine: MachineTelemetry | null;
  readonly onShow: () => void;
}

function Devices({ telemetry, machine, onShow }: DevicesProps): JSX.Element | null {
  useChanges(telemetry, false, 1_000);
  useChanges(machine, false, 2_000);
  const { devices } = telemetry;
  const sample = machine?.sample ?? null;
  const busy = sample && sample.devices.length > 0 ? summaryOf(tilesOf(sample, null, null)) : null;
  if (!devices && !busy) return null;
  return (
    <button
      type="button"
      className="jp-TPULabStatus"
      title={trans.__('Show devices, steps and compilations')}
      onClick={onShow}
    >
      {busy?.dutyPercent != null ? (
        <span className="jp-TPULab-number">{busyText(busy)}</span>
      ) : devices ? (
        summaryText(devices)
      ) : (
        trans._n('%1 device', '%1 devices', busy?.count ?? 0)
      )}
    </button>
  );
}

/** `8 devices 87% · HBM 11.2 / 15.8 GiB`. */
function busyText({ count, dutyPercent, memory }: DevicesSummary): string {
  const duty = trans._n('%1 device %2%', '%1 devices %2%', count, Math.round(dutyPercent ?? 0));
  return memory ? trans.__('%1 · HBM %2', duty, memory.text) : duty;
}

/** A shape for each state, because colour alone is not enough: full, dashed, crossed, hollow. */
function Mark({ kind }: { readonly kind: Connection['kind'] }): JSX.Element {
  return (
    <svg className="jp-TPULabStatus-mark" viewBox="0 0 12 12" aria-hidden="true">
      {kind === 'live' ? <circle cx="6" cy="6" r="4" className="jp-TPULabStatus-filled" /> : null}
      {kind === 'local' ? <circle cx="6" cy="6" r="3.5" /> : null}
      {kind === 'replaying' ? <path d="M3 2.5v7l6-3.5z" className="jp-TPULabStatus-filled" /> : null}
      {kind === 'connecting' || kind === 'reconnecting' ? (
        <circle cx="6" cy="6" r="3.5" strokeDasharray="2.75 2.75" />
      ) : null}
      {kind === 'at-risk' ? <path d="M6 1.5l5 9H1zM6 5v2.5M6 9v.5" /> : null}
      {kind === 'lost' ? <path d="M3 3l6 6M9 3l-6 6" /> : null}
    </svg>
  );
}
