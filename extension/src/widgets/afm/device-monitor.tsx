/** `tpulab.DeviceMonitor`: the devices of the kernel, with memory and duty cycle where known. */
import type { JSX } from 'react';
import { DevicesNow, devicesText } from '../../devices/now-view.js';
import { widgetModule, type WidgetViewProps } from '../module.js';
import { trans } from '../../text/trans.js';

function DeviceMonitor({ feed, loop }: WidgetViewProps): JSX.Element {
  const { kernel, machine } = feed;
  const text = devicesText(kernel.devices, machine).join(' · ');
  return (
    <div className="jp-TPULabDevices">
      <p>
        <strong>{text || trans.__('No device yet')}</strong>
      </p>
      {text === '' ? (
        <p className="jp-TPULab-quiet">{trans.__('Devices appear when a cell uses them: jax.devices()')}</p>
      ) : (
        <DevicesNow devices={kernel.devices} machine={machine} loop={loop} />
      )}
    </div>
  );
}

export default widgetModule(DeviceMonitor);
