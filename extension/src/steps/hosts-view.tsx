/** The split of the step time on each host of a slice, and the host that the others wait for. */
import type { JSX } from 'react';
import { durationText, type HostsMessage } from '@tpulab/protocol';
import type { Span } from '../events/step-ring.js';
import { spanName } from './span-names.js';
import { trans } from '../text/trans.js';

interface HostsViewProps {
  readonly hosts: HostsMessage;
}

/** More bars are less readable; hosts that are later than the others are first then. */
const ALL_SHOWN = 8;

type Host = HostsMessage['hosts'][number];

export function HostsView({ hosts }: HostsViewProps): JSX.Element {
  const { straggler } = hosts;
  const shown =
    hosts.hosts.length <= ALL_SHOWN
      ? hosts.hosts
      : [...hosts.hosts].sort((a, b) => b.lateMs - a.lateMs || a.host - b.host).slice(0, ALL_SHOWN);
  const left = hosts.hosts.length - shown.length;
  return (
    <div className="jp-TPULabHosts">
      <p className={`jp-TPULabSay${straggler ? ' jp-mod-act' : ' jp-mod-fine'}`}>{stragglerText(hosts)}</p>
      <ul aria-label={trans.__('Steps by host, mean of the last %1 steps', hosts.compared)}>
        {shown.map(host => (
          <Row key={host.host} host={host} isLate={straggler?.host === host.host} />
        ))}
      </ul>
      {left > 0 ? <p className="jp-TPULab-quiet">{trans._n('%1 more host', '%1 more hosts', left)}</p> : null}
    </div>
  );
}

/** "Host 2 is 18 ms later at each step: input. The others wait for it." */
function stragglerText({ straggler }: HostsMessage): string {
  return straggler
    ? trans.__(
        'Host %1 is %2 later at each step: %3. The others wait for it.',
        straggler.host,
        durationText(straggler.lateMs),
        spanName(straggler.cause)
      )
    : trans.__('No host keeps the others waiting.');
}

function Row({ host, isLate }: { readonly host: Host; readonly isLate: boolean }): JSX.Element {
  const { wallMs, lateMs, name } = host;
  // In their order in time; all hosts end together, at the collective.
  const spans: readonly [Span, number][] = [
    ['input', host.inputMs],
    ['host', host.hostMs],
    ['compile', host.compileMs],
    ['gap', host.gapMs],
    ['device', host.deviceMs]
  ];
  const label = spans
    .filter(([, ms]) => ms > 0)
    .map(([span, ms]) => trans.__('%1 %2', spanName(span), durationText(ms)))
    .join(', ');
  return (
    <li
      className={`jp-TPULabHosts-row${isLate ? ' jp-mod-late' : ''}`}
      title={trans.__('%1: %2', name, label)}
    >
      <span className="jp-TPULabHosts-name">{trans.__('host %1', host.host)}</span>
      <span className="jp-TPULabSplit" role="img" aria-label={label}>
        {spans.map(([span, ms]) => (
          <span
            key={span}
            className={`jp-TPULabSplit-part jp-mod-${span}`}
            style={{ width: `${wallMs > 0 ? (ms / wallMs) * 100 : 0}%` }}
          />
        ))}
      </span>
      <span className="jp-TPULab-number">{isLate ? `+${durationText(lateMs)}` : ''}</span>
    </li>
  );
}
