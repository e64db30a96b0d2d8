/** A figure with its name, and its explanation on hover or focus. */
import type { JSX, ReactNode } from 'react';
import { useUniqueId } from './use-unique-id.js';

interface FigureProps {
  readonly name: string;
  readonly value: string;
  /** Unit of the value, or its short name. */
  readonly unit: string;
  /** Its meaning and its components. */
  readonly children: ReactNode;
}

export function Figure({ name, value, unit, children }: FigureProps): JSX.Element {
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
