/** The panel of the extension with this page's notebook. */
import { type JSX, useEffect, useMemo } from 'react';
import { findCell, goToCell, type OpenNotebooks } from '../../src/panel/go-to-cell.js';
import { PanelView } from '../../src/panel/view.js';
import { DrawLoop } from '../../src/ui/draw-loop.js';
import { actionsOf, showNotebook } from '../runtime/control.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';

export function PanelBody({
  page,
  session: { panel }
}: {
  readonly page: SessionPage;
  readonly session: OpenSession;
}): JSX.Element {
  const { panelState, commands } = page;
  const loop = useMemo(() => new DrawLoop(window), []);
  useEffect(() => {
    const check = (): void => {
      panelState.paused = document.hidden;
      if (!document.hidden) loop.wake();
    };
    showNotebook(panel);
    check();
    document.addEventListener('visibilitychange', check);
    return () => {
      document.removeEventListener('visibilitychange', check);
      panelState.paused = true;
    };
  }, [panelState, loop, panel]);
  const notebooks: OpenNotebooks = {
    currentWidget: panel,
    find: matches => (matches(panel) ? panel : undefined)
  };
  return (
    <div className="jp-TPULabPanel tpl-PanelBody">
      <PanelView
        state={panelState}
        loop={loop}
        actions={actionsOf(page)}
        onRemedy={remedy =>
          void commands.execute(remedy === 'reconnect' ? 'tpulab:reconnect' : 'tpulab:connect')
        }
        onGoTo={({ cellId, line }) =>
          cellId !== null && findCell(notebooks, cellId)
            ? () => void goToCell(notebooks, () => undefined, { cellId, line })
            : null
        }
      />
    </div>
  );
}
