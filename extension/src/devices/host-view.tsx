/** The host of the chips: processor, memory, disk and network. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type HostFigures, percentText, sizeText, usageText } from '@tpulab/protocol';
import { type JSX, memo } from 'react';

export interface HostViewProps {
  readonly host: HostFigures;
  readonly trans: TranslationBundle;
}

/** A list of names and figures; figures that this system does not report are omitted. */
export const HostView = memo(function HostView({ host, trans }: HostViewProps): JSX.Element {
  const { cpuPercent, cores, memoryUsedBytes, memoryTotalBytes } = host;
  const rate = (bytes: number | null): string => (bytes === null ? '–' : `${sizeText(bytes)}/s`);
  return (
    <dl className="jp-TPULabHost" aria-label={trans.__('The host')}>
      <div>
        <dt title={trans._n('%1 core', '%1 cores', cores)}>{trans.__('Host CPU')}</dt>
        <dd>{cpuPercent === null ? '–' : percentText(cpuPercent)}</dd>
      </div>
      <div>
        <dt>{trans.__('RAM')}</dt>
        <dd>
          {memoryUsedBytes === null || memoryTotalBytes === null
            ? '–'
            : usageText(memoryUsedBytes, memoryTotalBytes)}
        </dd>
      </div>
      {host.diskReadBytesPerS === null && host.diskWrittenBytesPerS === null ? null : (
        <div>
          <dt>{trans.__('Disk')}</dt>
          <dd title={trans.__('read and written')}>
            {trans.__('%1 in, %2 out', rate(host.diskReadBytesPerS), rate(host.diskWrittenBytesPerS))}
          </dd>
        </div>
      )}
      {host.networkReceivedBytesPerS === null && host.networkSentBytesPerS === null ? null : (
        <div>
          <dt>{trans.__('Network')}</dt>
          <dd title={trans.__('received and sent')}>
            {trans.__('%1 in, %2 out', rate(host.networkReceivedBytesPerS), rate(host.networkSentBytesPerS))}
          </dd>
        </div>
      )}
    </dl>
  );
});
