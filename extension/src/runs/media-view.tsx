/** Pictures, sound and text that a run has logged: of each name the newest, and earlier ones by a slider over their steps. */
import { countText, type MediaMessage } from '@tpulab/protocol';
import { type JSX, useEffect, useRef, useState } from 'react';
import { trans } from '../text/trans.js';

export interface MediaViewProps {
  /** Without data; oldest first. */
  readonly media: readonly MediaMessage[];
  /** Null where it is not stored. */
  readonly onLoad: (id: number) => Promise<MediaMessage | null>;
}

export function MediaView({ media, onLoad }: MediaViewProps): JSX.Element {
  return (
    <div className="jp-TPULabMedia">
      {[...new Set(media.map(({ name }) => name))].map(name => (
        <MediaOfName key={name} media={media.filter(one => one.name === name)} {...{ onLoad }} />
      ))}
    </div>
  );
}

function MediaOfName({ media, onLoad }: MediaViewProps): JSX.Element | null {
  const [chosen, setChosen] = useState<number | null>(null);
  const at = chosen ?? media.length - 1;
  const shown = media[at];
  const id = shown?.id;
  const [loaded, setLoaded] = useState<MediaMessage | 'none' | null>(null);
  // A new function at each rendering must not cause another load.
  const source = useRef(onLoad);
  source.current = onLoad;
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A picture reaches the page before its file is written.
    const load = async (attempts: number): Promise<void> => {
      const found = id === undefined ? null : await source.current(id);
      if (isCurrent && (found || attempts === 0)) {
        setLoaded(found ?? 'none');
      } else if (isCurrent) {
        timer = setTimeout(() => void load(attempts - 1), RETRY_MS);
      }
    };
    void load(3);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [id]);
  if (!shown) {
    return null;
  }
  const label = trans.__('%1 at step %2', shown.name, countText(shown.step));
  return (
    <figure aria-label={label}>
      <figcaption>{label}</figcaption>
      {loaded === null ? null : loaded === 'none' ? (
        <p className="jp-TPULab-quiet">{trans.__('It is no longer stored.')}</p>
      ) : (
        <Content medium={loaded} label={label} />
      )}
      {media.length > 1 ? (
        <input
          type="range"
          aria-label={trans.__('Step of %1', shown.name)}
          aria-valuetext={countText(shown.step)}
          min={0}
          max={media.length - 1}
          value={at}
          onChange={event => {
            const next = Number(event.currentTarget.value);
            setChosen(next === media.length - 1 ? null : next);
          }}
        />
      ) : null}
    </figure>
  );
}

const RETRY_MS = 500;

function Content({ medium, label }: { readonly medium: MediaMessage; readonly label: string }): JSX.Element {
  const { mime, data = '' } = medium;
  if (mime === 'text/plain') {
    return <pre>{data}</pre>;
  }
  const source = `data:${mime};base64,${data}`;
  return mime === 'audio/wav' ? <audio controls src={source} /> : <img src={source} alt={label} />;
}
