/** The lessons, copied into a folder of the file browser where it does not show them yet: a command, and a card for it. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ILauncher } from '@jupyterlab/launcher';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { LessonsCopied } from '@tpulab/protocol';
import { chipIcon } from '../ui/icon.js';
import { CATEGORY_RANK } from '../ui/category-rank.js';
import type { IBridgeBackends } from '../backends/tokens.js';

const OPEN = 'tpulab:open-lessons';
const RANK = 91;

/** Shows the folder with the lessons. Throws what people can read. */
export async function openLessons(app: JupyterFrontEnd, { remotes }: IBridgeBackends): Promise<void> {
  const { folder } = await remotes.api.ask<LessonsCopied>('POST', 'bridge/v1/lessons');
  await app.commands.execute('filebrowser:go-to-path', { path: folder === '' ? '/' : folder });
}

/** The card stands beside those of our kernels, without which no lesson runs. */
export function offerLessons(
  app: JupyterFrontEnd,
  launcher: ILauncher,
  backends: IBridgeBackends,
  trans: TranslationBundle,
  sayProblem: (title: string, why: string) => Promise<void>
): void {
  app.commands.addCommand(OPEN, {
    label: trans.__('Open the lessons'),
    caption: trans.__('Copy missing lessons to your files and show them'),
    icon: chipIcon,
    isEnabled: () => backends.bridge.state === 'ok',
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () =>
      openLessons(app, backends).catch((error: unknown) =>
        sayProblem(
          trans.__('The lessons could not be opened'),
          error instanceof Error ? error.message : String(error)
        )
      )
  });
  let card: IDisposable | null = null;
  const update = (): void => {
    const isWanted = backends.bridge.state === 'ok';
    if (isWanted && card === null) {
      const category = trans.__('TPULab');
      card = launcher.add({ command: OPEN, category, categoryRank: CATEGORY_RANK, rank: RANK });
    } else if (!isWanted) {
      card?.dispose();
      card = null;
    }
  };
  update();
  backends.bridge.changed.connect(update);
}
