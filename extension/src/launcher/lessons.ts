/** First steps for newcomers: the tour, a new notebook, and the lessons, copied into a folder of the file browser if missing there. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PathExt } from '@jupyterlab/coreutils';
import type { ILauncher } from '@jupyterlab/launcher';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableSet } from '@lumino/disposable';
import type { LessonsCopied } from '@tpulab/protocol';
import { examplesIcon, tourIcon } from '../ui/icon.js';
import { CATEGORY_RANK } from '../ui/category-rank.js';
import type { IBridgeBackends } from '../backends/tokens.js';
import { bridgeCards } from './cards.js';
import { notebookOf, TOUR } from './templates.js';

/** Shows the folder with the lessons. Throws readable errors. */
export async function openLessons(app: JupyterFrontEnd, { remotes }: IBridgeBackends): Promise<void> {
  const { folder } = await remotes.api.request<LessonsCopied>('POST', 'bridge/v1/examples');
  await app.commands.execute('filebrowser:go-to-path', { path: folder === '' ? '/' : folder });
}

/** A new notebook in `folder`, opened on a kernel of ours. */
async function openTour(
  { commands, serviceManager: { contents, kernelspecs } }: JupyterFrontEnd,
  isBridgeSpec: (name: string) => boolean,
  folder: string
): Promise<void> {
  const { path } = await contents.newUntitled({ path: folder, type: 'notebook' });
  const content = JSON.parse(notebookOf(TOUR)) as { metadata: object };
  const names = bridgeCards(kernelspecs.specs, isBridgeSpec)
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ kernelName }) => kernelName);
  // Its cells use JAX.
  const name = names.find(each => each.includes('jax')) ?? names[0];
  if (name !== undefined) {
    const display_name = kernelspecs.specs?.kernelspecs[name]?.display_name ?? name;
    content.metadata = { kernelspec: { name, display_name } };
  }
  await contents.save(path, { type: 'notebook', format: 'json', content });
  // An existing tour with this name stays.
  const wanted = PathExt.join(folder, TOUR.file);
  const to = await contents.rename(path, wanted).then(
    renamed => renamed.path,
    () => path
  );
  await commands.execute('docmanager:open', { path: to });
}

/** The cards stand beside our kernels' cards, because both need our kernels. */
export function offerLessons(
  app: JupyterFrontEnd,
  launcher: ILauncher,
  backends: IBridgeBackends,
  trans: TranslationBundle,
  showProblem: (title: string, why: string) => Promise<void>
): void {
  const offers = [
    {
      id: 'tpulab:open-tour',
      icon: tourIcon,
      label: trans.__('Take the tour'),
      caption: TOUR.about,
      problem: trans.__('The tour could not be opened'),
      open: (folder: string) => openTour(app, name => backends.isBridgeSpec(name), folder)
    },
    {
      id: 'tpulab:open-lessons',
      icon: examplesIcon,
      label: trans.__('Open the examples'),
      caption: trans.__('Copy missing examples to your files and show them'),
      problem: trans.__('The examples could not be opened'),
      open: () => openLessons(app, backends)
    }
  ];
  for (const { id, icon, label, caption, problem, open } of offers) {
    app.commands.addCommand(id, {
      label,
      caption,
      icon,
      isEnabled: () => backends.bridge.state === 'ok',
      describedBy: { args: { type: 'object', properties: { cwd: { type: 'string' } } } },
      execute: ({ cwd }) =>
        open(typeof cwd === 'string' ? cwd : '').catch((error: unknown) =>
          showProblem(problem, error instanceof Error ? error.message : String(error))
        )
    });
  }
  let cards: DisposableSet | null = null;
  const update = (): void => {
    const isWanted = backends.bridge.state === 'ok';
    if (isWanted && cards === null) {
      const category = trans.__('TPULab');
      cards = DisposableSet.from(
        offers.map(({ id }, at) =>
          launcher.add({ command: id, category, categoryRank: CATEGORY_RANK, rank: 91 + at })
        )
      );
    } else if (!isWanted) {
      cards?.dispose();
      cards = null;
    }
  };
  update();
  backends.bridge.changed.connect(update);
}
