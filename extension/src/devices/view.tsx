/** The devices of a kernel: what they are, and a chip for each. */
import { type JSX, memo } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { DevicesMessage, RuntimeDevice } from '@tpulab/protocol';
import { isSimulated, kindText, memoryOf, summaryText, totalMemory } from './model.js';

export interface DevicesViewProps {
  readonly devices: DevicesMessage;
  readonly trans: TranslationBundle;
}

/** Drawn anew for a new message only: the steps beside it change far more often. */
export const DevicesView = memo(function DevicesView({
  devices: message,
  trans
}: DevicesViewProps): JSX.Element {
  const memory = totalMemory(message.devices);
  const full = message.devices.filter(device => memoryOf(device)?.nearlyFull).map(device => device.id);
  const processes = new Set(message.devices.map(device => device.processIndex)).size;
  return (
    <div className="jp-TPULabDevices">
      <div className="jp-TPULab-row">
        <strong>{summaryText(message, trans)}</strong>
        <span className="jp-TPULab-number jp-TPULab-quiet">
          {memory ? memory.text : `${message.runtime} ${message.runtimeVersion}`}
        </span>
      </div>
      <ul
        className={`jp-TPULabDevices-chips${memory || processes > 1 ? '' : ' jp-mod-bare'}`}
        aria-label={trans.__('Devices by number')}
      >
        {message.devices.map(device => (
          <Chip key={device.id} device={device} ofSeveral={processes > 1} trans={trans} />
        ))}
      </ul>
      {full.length > 0 ? (
        <p className="jp-TPULabSay jp-mod-act">
          {trans._n(
            'Memory of device %2 is nearly full. A smaller batch makes room.',
            'Memory of devices %2 is nearly full. A smaller batch makes room.',
            full.length,
            full.join(', ')
          )}
        </p>
      ) : memory ? (
        <p className="jp-TPULabDevices-note">{trans.__('Bars show memory in use.')}</p>
      ) : null}
      {isSimulated(message) ? (
        <p className="jp-TPULabDevices-note">
          {trans.__(
            'These devices share the processor of this machine: good for trying out programs for several chips.'
          )}
        </p>
      ) : null}
    </div>
  );
});

interface ChipProps {
  readonly device: RuntimeDevice;
  /** The devices belong to several processes. */
  readonly ofSeveral: boolean;
  readonly trans: TranslationBundle;
}

function Chip({ device, ofSeveral, trans }: ChipProps): JSX.Element {
  const memory = memoryOf(device);
  const percent = memory ? Math.round(memory.fraction * 100) : 0;
  const name = trans.__('device %1, %2', device.id, kindText(device));
  return (
    <li
      className={`jp-TPULabChip${memory?.nearlyFull ? ' jp-mod-full' : ''}`}
      title={memory ? `${name}: ${memory.text}` : name}
    >
      <span className="jp-TPULab-row">
        <span className="jp-TPULab-number">{device.id}</span>
        <span className="jp-TPULab-number jp-TPULab-quiet">
          {memory ? `${percent}%` : ofSeveral ? trans.__('host %1', device.processIndex) : ''}
        </span>
      </span>
      {memory ? (
        <span
          className="jp-TPULabChip-bar"
          role="meter"
          aria-label={trans.__('Memory of device %1', device.id)}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={percent}
          aria-valuetext={memory.nearlyFull ? trans.__('%1, nearly full', memory.text) : memory.text}
        >
          <span className="jp-TPULabChip-used" style={{ width: `${percent}%` }} />
        </span>
      ) : null}
    </li>
  );
}
