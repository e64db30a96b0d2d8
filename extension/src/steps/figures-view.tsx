/** Three figures of a run with their names: the share of the chips' peak, the share of time spent on steps, and the throughput. */
import { durationText, type ThroughputMessage, percentText, threeFigures } from '@tpulab/protocol';
import type { JSX, ReactNode } from 'react';
import { useUniqueId } from '../ui/use-unique-id.js';
import { badputName, computeFigure, throughputFigure } from './throughput.js';
import { trans } from '../text/trans.js';

interface FiguresViewProps {
  readonly measured: ThroughputMessage;
}

export function FiguresView({ measured }: FiguresViewProps): JSX.Element {
  const compute = computeFigure(measured);
  const throughput = throughputFigure(measured);
  return (
    <div className="jp-TPULabFigures">
      {compute ? (
        <Figure name={trans.__('Compute used')} value={compute.value} unit={compute.unit}>
          <p>
            {trans.__(
              "Model FLOPs utilization: the share of the chips' peak that the model's own arithmetic uses, idle time included."
            )}
          </p>
          <p>{compute.source}</p>
          {compute.rows.map(([name, value]) => (
            <div key={name} className="jp-TPULab-row">
              <span>{name}</span> <strong>{value}</strong>
            </div>
          ))}
        </Figure>
      ) : null}
      <Productive measured={measured} />
      {throughput ? (
        <Figure name={trans.__('Throughput')} value={throughput.value} unit={throughput.unit}>
          <p>{trans.__('Mean of the last ten seconds, without evaluations and pauses.')}</p>
        </Figure>
      ) : null}
    </div>
  );
}

function Productive({ measured: { goodput } }: FiguresViewProps): JSX.Element | null {
  const { totalMs, productiveMs, badputMs } = goodput;
  if (totalMs <= 0) {
    return null;
  }
  const causes = Object.entries(badputMs)
    .filter(([, ms]) => ms > 0)
    .sort(([, a], [, b]) => b - a);
  return (
    <Figure
      name={trans.__('Productive time')}
      value={percentText((productiveMs / totalMs) * 100)}
      unit={trans.__('goodput')}
    >
      <p>{trans.__('Share of %1 that was spent on training steps. The rest:', durationText(totalMs))}</p>
      {causes.map(([cause, ms]) => (
        <div key={cause} className="jp-TPULab-row">
          <span>{badputName(cause)}</span>{' '}
          <strong>
            {durationText(ms)} · {threeFigures((ms / totalMs) * 100)}%
          </strong>
        </div>
      ))}
    </Figure>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: string;
  /** Unit of the value, or its short name. */
  readonly unit: string;
  /** Its meaning and its components. */
  readonly children: ReactNode;
}

/** A value with its name, and its explanation on hover or focus. */
function Figure({ name, value, unit, children }: FigureProps): JSX.Element {
  const id = useUniqueId();
  return (
    <div className="jp-TPULabFigure" tabIndex={0} role="group" aria-label={name} aria-describedby={id}>
      <span className="jp-TPULabFigure-name">{name}</span>
      <span className="jp-TPULabFigure-value">
        <strong>{value}</strong> {unit}
      </span>
      <div id={id} role="tooltip" className="jp-TPULabFigure-tip">
        {children}
      </div>
    </div>
  );
}
