/** The page of runs without a notebook. */
import { type JSX, useEffect, useMemo } from 'react';
import { RunsPage } from '../../src/runs/runs-page.js';
import { DrawLoop } from '../../src/ui/draw-loop.js';
import { addressOf } from '../page/address.js';
import { goTo } from '../page/page-commands.js';
import type { SessionPage } from '../page/session-page.js';
import { trans } from '../text.js';

export default function Runs({ page }: { readonly page: SessionPage }): JSX.Element {
  const loop = useMemo(() => new DrawLoop(window), []);
  useEffect(() => {
    document.title = `${trans.__('Runs')} · TPULab`;
    return () => loop.dispose();
  }, [loop]);
  return (
    <main className="tpl-Runs">
      <a href={document.baseURI}>{trans.__('Files')}</a>
      <RunsPage
        backends={page.backends}
        loop={loop}
        isReadOnly={page.access.isReadOnly}
        onOpenDocument={path => goTo(page, addressOf(window, path))}
        onGoTo={() => null}
      />
    </main>
  );
}
