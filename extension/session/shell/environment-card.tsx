/** In the opened chip: packages that the user has installed into the kernel's environment, and the other notebooks that use it. */
import type { EnvironmentInfo } from '@tpulab/protocol';
import { type JSX, useEffect, useState } from 'react';
import { requestBridge } from '../../src/backends/bridge-request.js';
import { splitSpecName } from '../../src/backends/spec-names.js';
import type { SessionPage } from '../page/session-page.js';
import { trans } from '../text.js';

const TIMEOUT_MS = 20_000;

interface CardProps {
  readonly page: SessionPage;
  /** Path of the open notebook. */
  readonly path: string;
  readonly kernelName: string;
}

/** Maximum number of listed notebooks that also use the environment. */
const NAMED_OTHERS = 3;

export function EnvironmentCard({ page, path, kernelName }: CardProps): JSX.Element | null {
  const kernel = page.current.current;
  const settings = kernel.kind === 'bridge' ? kernel.backend.serverSettings : null;
  const specName = splitSpecName(kernelName).name;
  const [added, setAdded] = useState<readonly string[] | null>(null);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    setAdded(null);
    setCopied(false);
    const end = new AbortController();
    const request = requestBridge({
      settings,
      route: 'bridge/v1/environments',
      timeoutMs: TIMEOUT_MS,
      signals: [end.signal]
    });
    const sessions = page.managers.sessions.refreshRunning().catch(() => undefined);
    Promise.all([request, sessions])
      .then(([{ body }]) => {
        const environments = Array.isArray(body) ? (body as EnvironmentInfo[]) : [];
        setAdded(environments.find(({ kernelspec }) => kernelspec === specName)?.added ?? null);
      })
      .catch(() => undefined);
    return () => end.abort();
  }, [page, settings, specName]);
  if (added === null) return null;
  // Most recently opened first.
  const others = [...page.managers.sessions.running()]
    .filter(session => session.kernel?.name === kernelName && session.path !== path)
    .map(session => session.path)
    .reverse();
  const named = others.slice(0, NAMED_OTHERS).join(', ');
  const unnamed = others.length - NAMED_OTHERS;
  return (
    <>
      <h2>{trans.__('Packages you added')}</h2>
      {added.length === 0 ? (
        <p className="jp-TPULab-quiet">{trans.__('None. "%pip install NAME" in a cell adds one.')}</p>
      ) : (
        <>
          <ul className="tpl-Packages">
            {added.map(line => {
              const [name = line, version = ''] = line.split(/==| @ /);
              return (
                <li key={line}>
                  <span>{name}</span>
                  <span className="jp-TPULab-quiet">{version}</span>
                </li>
              );
            })}
          </ul>
          <p className="jp-TPULab-quiet">{trans.__('Installed again when the environment is updated.')}</p>
          <button
            type="button"
            className="tpl-Button"
            onClick={() =>
              void navigator.clipboard.writeText(`${added.join('\n')}\n`).then(() => setCopied(true))
            }
          >
            {isCopied ? trans.__('Copied') : trans.__('Copy as requirements.txt')}
          </button>
        </>
      )}
      {others.length === 0 ? null : (
        <p className="jp-TPULab-quiet">
          {unnamed > 0
            ? trans.__('Also used by %1 and %2 more', named, unnamed)
            : trans.__('Also used by %1', named)}
        </p>
      )}
    </>
  );
}
