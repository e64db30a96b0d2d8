/** The side panel: the state of its connection, and the sections. */
import type { JSX } from 'react';
import type { StreamState } from '../events/event-stream.js';
import type { PanelViewProps } from './sections.js';
import { Sections } from './sections.js';
import { type Message, type Remedy, situationOf } from './situation.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import { trans } from '../text/trans.js';

export type { PanelViewProps } from './sections.js';

export function PanelView(props: PanelViewProps): JSX.Element {
  const { state, onRemedy } = props;
  const { current, stream, telemetry, paused } = state;
  useChanges(state, false, 0);
  useChanges(telemetry, paused);
  useSeconds(stream?.kind === 'waiting' && !paused);
  const situation = situationOf({ current, stream, telemetry, now: Date.now() });
  return (
    <div className="jp-TPULabPanel-content">
      {current.kind === 'none' ? null : (
        <p
          className="jp-TPULabPanel-followed"
          title={trans.__('The panel follows the active notebook or console.')}
        >
          <span className="jp-TPULab-fitting">
            <span className="jp-TPULabPanel-document">{current.document}</span>
            {current.kind === 'no-kernel' ? null : (
              <span className="jp-TPULabPanel-kernel jp-TPULab-quiet">{current.kernelName}</span>
            )}
          </span>
          {current.kind === 'bridge' ? <Link kind={stream?.kind ?? null} /> : null}
        </p>
      )}
      {situation.message ? <MessageView message={situation.message} onRemedy={onRemedy} /> : null}
      <Sections
        key={telemetry?.kernelId ?? ''}
        {...props}
        kernel={situation.showTelemetry ? telemetry : null}
      />
    </div>
  );
}

/** Whether the shown data is current. */
function Link({ kind }: { readonly kind: StreamState['kind'] | null }): JSX.Element {
  return (
    <span className={`jp-TPULabPanel-link jp-mod-${kind ?? 'waiting'}`}>
      {kind === 'live' ? trans.__('Live') : trans.__('Reconnecting')}
    </span>
  );
}

interface MessageViewProps {
  readonly message: Message;
  readonly onRemedy: (remedy: Remedy) => void;
}

function MessageView({ message: { text, remedy }, onRemedy }: MessageViewProps): JSX.Element {
  return (
    <div className="jp-TPULabMessage">
      <p>{text}</p>
      {remedy ? (
        <button type="button" className="jp-TPULab-button" onClick={() => onRemedy(remedy)}>
          {remedy === 'reconnect' ? trans.__('Reconnect now') : trans.__('Choose a kernel…')}
        </button>
      ) : null}
    </div>
  );
}
