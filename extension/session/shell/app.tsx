/** The page with a notebook: top bar, banners, contents, notebook, panel, step bar. */
import { Widget } from '@lumino/widgets';
import { MessageLoop } from '@lumino/messaging';
import { followLongOutput } from '../notebook/long-output.js';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type JSX, lazy, Suspense, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { type Keyboard, type OpenSession, openSession } from '../page/open-session.js';
import { loadSanitizer } from '../kit/sanitizer.js';
import { pageStorage } from '../../src/platform/page-storage.js';
import type { SessionPage } from '../page/session-page.js';
import type { Theme } from '../page/theme.js';
import { Banners } from './banners.js';
import { Drawer, WIDE } from './drawer.js';
import { Palette } from './palette.js';
import { StepBar } from './step-bar.js';
import { TopBar } from './top-bar.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';
import { IconButton } from './plain.js';

interface AppProps {
  readonly page: SessionPage;
  readonly theme: Theme;
  readonly notebook: string;
}

const KEYBOARD_KEY = 'tpulab:session-keyboard';

/** A notebook is open as long as its page, however often React mounts its view. */
const opened = new WeakMap<SessionPage, OpenSession>();

export function App(props: AppProps): JSX.Element | null {
  const { page, notebook } = props;
  const storage = pageStorage();
  const [keyboard] = useState<Keyboard>(storage?.getItem(KEYBOARD_KEY) === 'colab' ? 'colab' : 'jupyterlab');
  const [session, setSession] = useState(opened.get(page));
  useLayoutEffect(() => {
    const share = async (path: string): Promise<void> =>
      (await import('./share.js')).showShareDialog(page, path);
    const open = opened.get(page) ?? openSession(page, notebook, { keyboard, share });
    opened.set(page, open);
    setSession(open);
  }, [page, notebook, keyboard]);
  const chooseKeyboard = (chosen: Keyboard): void => {
    storage?.setItem(KEYBOARD_KEY, chosen);
    // The keys are bound when a notebook is opened.
    void session?.saving.save().then(() => window.location.reload());
  };
  return session ? (
    <Shell {...props} session={session} keyboard={keyboard} onKeyboard={chooseKeyboard} />
  ) : null;
}

type ShellProps = AppProps & {
  readonly session: OpenSession;
  readonly keyboard: Keyboard;
  readonly onKeyboard: (chosen: Keyboard) => void;
};

function Shell({ page, theme, session, keyboard, onKeyboard }: ShellProps): JSX.Element {
  const [isDrawerOpen, setDrawerOpen] = useState(() => window.matchMedia(WIDE).matches);
  const [isPanelOpen, setPanelOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const { context, panel, saving } = session;
  useSignals(context.pathChanged);

  useEffect(() => {
    document.title = `${context.path.split('/').at(-1) ?? ''} · TPULab`;
  }, [context.path]);
  useEffect(() => {
    const onLeave = (event: BeforeUnloadEvent): void => {
      if (saving.needsSave) {
        void saving.save();
        event.preventDefault();
      }
    };
    const onHide = (): void => {
      if (document.visibilityState === 'hidden') void saving.save();
    };
    window.addEventListener('beforeunload', onLeave);
    document.addEventListener('visibilitychange', onHide);
    return () => {
      window.removeEventListener('beforeunload', onLeave);
      document.removeEventListener('visibilitychange', onHide);
    };
  }, [saving]);
  useEffect(() => {
    const { commands } = page;
    const added = [
      commands.addCommand('tpulab:palette', {
        label: trans.__('Search commands'),
        execute: () => setPaletteOpen(true)
      }),
      commands.addKeyBinding({ command: 'tpulab:palette', keys: ['Accel K'], selector: 'body' }),
      commands.addKeyBinding({ command: 'tpulab:palette', keys: ['Accel Shift C'], selector: 'body' }),
      commands.addCommand('tpulab:show-panel', {
        label: trans.__('Open or close the panel'),
        execute: () => setPanelOpen(open => !open)
      }),
      commands.addCommand('tpulab:show-contents', {
        label: trans.__('Open or close the contents'),
        execute: () => setDrawerOpen(open => !open)
      }),
      commands.addCommand('tpulab:find', {
        label: trans.__('Find in the notebook…'),
        execute: async () => {
          // Keys typed before the search is loaded must not trigger notebook commands.
          if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
          (await import('../notebook/find.js')).find(panel);
        }
      }),
      commands.addKeyBinding({ command: 'tpulab:find', keys: ['Accel F'], selector: 'body' }),
      commands.addCommand('tpulab:next-region', {
        label: trans.__('Go to the next part of the page'),
        execute: focusNextRegion
      }),
      commands.addKeyBinding({ command: 'tpulab:next-region', keys: ['F6'], selector: 'body' })
    ];
    return () => added.forEach(each => each.dispose());
  }, [page, panel]);
  useEffect(() => {
    if (page.access.isReadOnly) return undefined;
    // Loaded with the first editor that gets the focus.
    const over = new AbortController();
    const { signal } = over;
    const onFocus = ({ target }: { readonly target: EventTarget | null }): void => {
      if (!(target instanceof Element) || target.closest('.cm-content') === null) return;
      panel.node.removeEventListener('focusin', onFocus);
      void Promise.all([import('../notebook/completion.js'), loadSanitizer()]).then(([{ addCompletion }]) => {
        if (!signal.aborted) addCompletion(panel, page.commands);
      });
    };
    panel.node.addEventListener('focusin', onFocus, { signal });
    onFocus({ target: document.activeElement });
    return () => over.abort();
  }, [panel, page]);

  return (
    <div className={`tpl-Page${page.access.isReadOnly ? ' jp-mod-readOnly' : ''}`}>
      <TopBar
        page={page}
        session={session}
        theme={theme}
        keyboard={keyboard}
        onKeyboard={onKeyboard}
        isDrawerOpen={isDrawerOpen}
        onDrawer={() => setDrawerOpen(!isDrawerOpen)}
        onPalette={() => setPaletteOpen(true)}
      />
      <Banners page={page} session={session} />
      <div className="tpl-Body">
        {isDrawerOpen ? <Drawer page={page} session={session} onClose={() => setDrawerOpen(false)} /> : null}
        <NotebookHost panel={panel} />
        {isPanelOpen ? (
          <PanelSheet page={page} session={session} onClose={() => setPanelOpen(false)} />
        ) : null}
      </div>
      {isPanelOpen && window.matchMedia(WIDE).matches ? null : (
        <StepBar
          page={page}
          session={session}
          isPanelOpen={isPanelOpen}
          onPanel={() => setPanelOpen(!isPanelOpen)}
        />
      )}
      {isPaletteOpen ? <Palette page={page} session={session} onClose={() => setPaletteOpen(false)} /> : null}
    </div>
  );
}

/** Moves the focus in turn: notebook, panel, step bar, top bar. */
function focusNextRegion(): void {
  const regions = [
    ...document.querySelectorAll<HTMLElement>('[data-tpl-region], .tpl-Notebook .jp-Notebook')
  ];
  const at = regions.findIndex(region => region.contains(document.activeElement));
  const next = regions[(at + 1) % regions.length];
  const inside = next?.matches('.jp-Notebook')
    ? (next.querySelector<HTMLElement>('.jp-mod-active') ?? next)
    : next?.querySelector<HTMLElement>('button:not(:disabled), input, select, a[href]');
  inside?.focus();
}

/** A Lumino widget in React's tree. */
function NotebookHost({ panel }: { readonly panel: NotebookPanel }): JSX.Element {
  const host = useRef<HTMLElement>(null);
  // Runs before React removes the node: a widget must be in the document when it is detached.
  useLayoutEffect(() => {
    const node = host.current;
    if (!node) return;
    Widget.attach(panel, node);
    const observer = new ResizeObserver(() =>
      MessageLoop.sendMessage(panel, Widget.ResizeMessage.UnknownSize)
    );
    observer.observe(node);
    const closed = new AbortController();
    followLongOutput(panel.node, closed.signal);
    return () => {
      closed.abort();
      observer.disconnect();
      if (panel.isAttached) Widget.detach(panel);
    };
  }, [panel]);
  return <main className="tpl-Notebook" ref={host} aria-label={trans.__('Notebook')} />;
}

interface PanelSheetProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly onClose: () => void;
}

const PanelBody = lazy(async () => ({ default: (await import('./panel-body.js')).PanelBody }));

function PanelSheet({ page, session, onClose }: PanelSheetProps): JSX.Element {
  return (
    <aside className="tpl-PanelSheet" aria-label={trans.__('Run and devices')} data-tpl-region="panel">
      <header>
        <h2>{trans.__('Run and devices')}</h2>
        {page.access.isReadOnly ? <span className="tpl-Pill">{trans.__('View only')}</span> : null}
        <IconButton icon="close" label={trans.__('Close the panel')} onClick={onClose} />
      </header>
      <Suspense fallback={<p className="jp-TPULab-quiet">{trans.__('Loading…')}</p>}>
        <PanelBody page={page} session={session} />
      </Suspense>
    </aside>
  );
}
