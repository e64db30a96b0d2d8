/** Name and state of the file, search, the main commands, the runtime. */
import type { SaveState } from '../files/saving.js';
import type { JSX } from 'react';
import type { Keyboard, OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import type { Theme } from '../page/theme.js';
import { Brand, IconButton } from './plain.js';
import { Icon } from './icons.js';
import { Menu } from '../../src/ui/menu.js';
import { RuntimeChip } from './runtime-chip.js';
import { useSignals } from './use-signal.js';
import { trans, timeText } from '../text.js';

interface TopBarProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly theme: Theme;
  readonly keyboard: Keyboard;
  readonly onKeyboard: (keyboard: Keyboard) => void;
  readonly isDrawerOpen: boolean;
  readonly onDrawer: () => void;
  readonly onPalette: () => void;
}

export function TopBar(props: TopBarProps): JSX.Element {
  const { page, session, isDrawerOpen, onDrawer, onPalette } = props;
  const { context, saving, timing } = session;
  const { commands, access } = page;
  const { sessionContext } = context;
  useSignals(
    ...[context.pathChanged, saving.changed, timing.changed],
    ...[sessionContext.statusChanged, sessionContext.sessionChanged]
  );
  const run = (id: string) => (): void => void commands.execute(id);
  const name = context.path.split('/').at(-1) ?? '';
  const { state } = saving;
  // A kernel that has answered a completion reports idle, though its cell is still running.
  const isBusy = timing.isRunning || sessionContext.session?.kernel?.status === 'busy';
  return (
    <header className="tpl-TopBar" data-tpl-region="top">
      <IconButton icon="menu" label={trans.__('Contents')} aria-expanded={isDrawerOpen} onClick={onDrawer} />
      <Brand />
      <h1 className="tpl-TopBar-name" title={context.path}>
        {name}
      </h1>
      <span
        className={`tpl-TopBar-saved jp-mod-${state.kind}`}
        role="status"
        title={state.kind === 'failed' ? state.why : undefined}
      >
        {state.kind === 'saved' ? <Icon name="check" /> : null}
        <span className="tpl-TopBar-savedText">{saveText(state, sessionContext.session !== null)}</span>
      </span>
      <button type="button" className="tpl-Search" onClick={onPalette} aria-keyshortcuts="Control+K">
        <Icon name="search" />
        <span className="tpl-Search-text">{trans.__('Search or run a command')}</span>
        <kbd>Ctrl+K</kbd>
      </button>
      {access.isReadOnly ? null : (
        <div className="tpl-ButtonGroup" role="group" aria-label={trans.__('Run')}>
          <button
            type="button"
            onClick={run('notebook:run-all-cells')}
            title={trans.__('Run all cells (Ctrl+F9)')}
          >
            <Icon name="runAll" />
            <span>{trans.__('Run all')}</span>
          </button>
          <button
            type="button"
            aria-label={trans.__('Interrupt the kernel')}
            title={trans.__('Interrupt the kernel (I, I)')}
            disabled={!isBusy}
            onClick={run('notebook:interrupt-kernel')}
          >
            <Icon name="stop" />
          </button>
          <button
            type="button"
            className="tpl-hideNarrow"
            aria-label={trans.__('Restart the kernel')}
            title={trans.__('Restart the kernel (0, 0)')}
            disabled={sessionContext.session?.kernel == null}
            onClick={run('notebook:restart-kernel')}
          >
            <Icon name="restart" />
          </button>
        </div>
      )}
      <RuntimeChip page={page} session={session} />
      <MoreMenu {...props} />
    </header>
  );
}

function MoreMenu({ page, theme, keyboard, onKeyboard }: TopBarProps): JSX.Element {
  useSignals(theme.changed);
  const { commands, access } = page;
  const command = (id: string) => ({
    label: commands.label(id),
    disabled: !commands.isEnabled(id),
    onClick: () => void commands.execute(id)
  });
  return (
    <Menu
      buttonClass="tpl-IconButton"
      label={trans.__('More')}
      button={<Icon name="more" />}
      items={[
        ...(access.isReadOnly
          ? []
          : [
              command('docmanager:save'),
              command('docmanager:rename'),
              command('tpulab:move'),
              command('tpulab:delete'),
              ...(commands.hasCommand('tpulab:share') ? [command('tpulab:share')] : []),
              command('notebook:restart-kernel'),
              command('notebook:restart-run-all')
            ]),
        command('docmanager:download'),
        { label: trans.__('All notebooks'), onClick: () => window.location.assign(document.baseURI) },
        {
          label: trans.__('Documentation'),
          onClick: () => void window.open(new URL('../docs/', document.baseURI), '_blank', 'noopener')
        },
        null,
        ...(['light', 'dark', 'system'] as const).map(choice => ({
          label: {
            light: trans.__('Light theme'),
            dark: trans.__('Dark theme'),
            system: trans.__("System's theme")
          }[choice],
          checked: theme.choice === choice,
          onClick: () => theme.choose(choice)
        })),
        null,
        ...(['jupyterlab', 'colab'] as const).map(choice => ({
          label: { jupyterlab: trans.__("JupyterLab's keys"), colab: trans.__("Colab's keys") }[choice],
          checked: keyboard === choice,
          onClick: () => onKeyboard(choice)
        }))
      ]}
    />
  );
}

/**
 * The file's state in the top bar.
 *
 * @param isLive the page receives the kernel's messages, not only the file
 */
export function saveText(state: SaveState, isLive: boolean): string {
  switch (state.kind) {
    case 'loading':
      return trans.__('Loading…');
    case 'read-only':
      return isLive ? trans.__('View only, live') : trans.__('View only, as saved');
    case 'saved':
      return state.at === null ? trans.__('Saved') : trans.__('Saved %1', timeText(state.at));
    case 'dirty':
      return trans.__('Not saved yet');
    case 'saving':
      return trans.__('Saving…');
    case 'failed':
      return trans.__('Not saved');
    case 'old-format':
      return trans.__('Not changed: nbformat %1', state.version);
    case 'deleted':
      return trans.__('Not saved: the file was deleted');
    case 'unreadable':
      return trans.__('Not opened');
    case 'conflict':
      return trans.__('Not saved: the file has changed');
  }
}
