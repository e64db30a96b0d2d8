/** Launcher cards for the bridge's kernelspecs, in their own category. */
import { downloadIcon, LabIcon, notebookIcon } from '@jupyterlab/ui-components';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ITranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { DisposableSet, type IDisposable } from '@lumino/disposable';
import { PathExt } from '@jupyterlab/coreutils';
import type { EnvironmentInfo, LessonsCopied } from '@tpulab/protocol';
import { IBridgeBackends } from '../backends/tokens.js';
import { CATEGORY_RANK } from '../ui/category-rank.js';
import { showSetupDialog } from './setup-dialog.js';
import { EnvironmentSetup, offeredEnvironment } from './setup-model.js';
import { bridgeCards, type IItem, isDouble, STOCK_NOTEBOOK_COMMAND } from './cards.js';
import { examplesIcon, tourIcon } from '../ui/icon.js';
import { notebookOf, TOUR } from './templates.js';
import { trans, translateWith } from '../text/trans.js';

/** Icons for the cards of kernelspecs, from their logos. */
const icons = new Map<string, LabIcon>();

/**
 * The logo as an icon; the notebook icon while there is none. The logo is drawn as an image inside the icon, because
 * an icon's own markup becomes part of the page and a kernelspec's file must not.
 */
function specIcon(kernelName: string, logoUrl: string | undefined): LabIcon {
  if (logoUrl === undefined || !/^data:image\/[\w.+-]+;base64,[\w+/=]*$/.test(logoUrl)) return notebookIcon;
  const key = `${kernelName} ${logoUrl}`;
  let icon = icons.get(key);
  if (icon === undefined) {
    const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><image href="${logoUrl}" width="64" height="64"/></svg>`;
    icon = new LabIcon({ name: `tpulab:kernelspec-${icons.size}`, svgstr });
    icons.set(key, icon);
  }
  return icon;
}

const CREATE_NOTEBOOK = 'tpulab:create-notebook';
const SET_UP = 'tpulab:set-up-environment';

export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:launcher',
  description: 'Launcher cards for the kernels of the TPULab server.',
  autoStart: true,
  requires: [IBridgeBackends],
  optional: [ILauncher, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    launcher: ILauncher | null,
    translator: ITranslator | null
  ): void => {
    if (launcher === null) return;
    translateWith(translator);
    const { commands } = app;
    const { kernelspecs } = app.serviceManager;
    const isBridgeSpec = (name: string): boolean => backends.isBridgeSpec(name);

    const displayName = (args: ReadonlyPartialJSONObject): string =>
      kernelspecs.specs?.kernelspecs[nameIn(args)]?.display_name ?? trans.__('Notebook');

    commands.addCommand(CREATE_NOTEBOOK, {
      label: args => displayName(args),
      caption: args => trans.__('Create a notebook that runs on "%1"', displayName(args)),
      icon: args => {
        const name = nameIn(args);
        const resources = kernelspecs.specs?.kernelspecs[name]?.resources;
        return specIcon(name, resources?.['logo-svg'] ?? resources?.['logo-64x64']);
      },
      isEnabled: () => commands.hasCommand(STOCK_NOTEBOOK_COMMAND),
      execute: args => commands.execute(STOCK_NOTEBOOK_COMMAND, args),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('Folder of the new notebook') },
            kernelName: { type: 'string', description: trans.__('Kernelspec name of the new notebook') }
          },
          required: ['kernelName']
        }
      }
    });

    // Lab lists every kernelspec under "Notebook" and offers no option for this. Showing the same action in two
    // places makes users search for a difference, so those cards are omitted where cards are listed.
    hideItems(launcher, item => isDouble(item, isBridgeSpec));

    let cards = new DisposableSet();
    const update = (): void => {
      cards.dispose();
      cards = new DisposableSet();
      for (const { kernelName, rank } of bridgeCards(kernelspecs.specs, isBridgeSpec)) {
        cards.add(
          launcher.add({
            command: CREATE_NOTEBOOK,
            args: { kernelName },
            category: trans.__('TPULab'),
            categoryRank: CATEGORY_RANK,
            rank
          })
        );
      }
    };
    update();
    kernelspecs.specsChanged.connect(update);
    offerSetup(app, launcher, backends);
    offerLessons(app, launcher, backends, showErrorMessage);
  }
};

/** A card that creates our environment, while this machine has none. */
function offerSetup(app: JupyterFrontEnd, launcher: ILauncher, backends: IBridgeBackends): void {
  const { bridge, remotes } = backends;
  const { kernelspecs } = app.serviceManager;
  const { api } = remotes;
  let card: IDisposable | null = null;
  let isPrompting = false;
  const offered = async (): Promise<EnvironmentInfo | null> => offeredEnvironment(await api.environments());
  app.commands.addCommand(SET_UP, {
    label: trans.__('Set up JAX on this machine'),
    caption: trans.__('Try examples and panels without a TPU'),
    icon: downloadIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      const environment = await offered();
      if (environment !== null) {
        const setup = new EnvironmentSetup(api, environment);
        const onLessons = (): Promise<void> => openLessons(app, backends);
        await showSetupDialog({ setup, onLessons });
      }
      await kernelspecs.refreshSpecs();
    }
  });
  const hasKernelspec = (): boolean =>
    Object.keys(kernelspecs.specs?.kernelspecs ?? {}).some(name => name.startsWith('tpulab-'));
  const refresh = async (): Promise<void> => {
    if (hasKernelspec()) {
      card?.dispose();
      card = null;
    } else if (card === null && !isPrompting && bridge.state === 'ok') {
      isPrompting = true;
      const environment = await offered().catch(() => null);
      isPrompting = false;
      if (environment !== null && !hasKernelspec()) {
        const category = trans.__('TPULab');
        card = launcher.add({ command: SET_UP, category, categoryRank: CATEGORY_RANK, rank: 90 });
      }
    }
  };
  const update = (): void => void refresh();
  update();
  kernelspecs.specsChanged.connect(update);
  bridge.changed.connect(update);
}

function nameIn(args: ReadonlyPartialJSONObject): string {
  return typeof args.kernelName === 'string' ? args.kernelName : '';
}

/** Omits items from the launcher's list. A launcher that does not list its items through `items` is left alone. */
function hideItems(launcher: ILauncher, isHidden: (item: IItem) => boolean): void {
  if (!hasItems(launcher)) return;
  const listed = launcher.items.bind(launcher);
  launcher.items = () => [...listed()].filter(item => !isHidden(item)).values();
}

function hasItems(launcher: ILauncher): launcher is ILauncher & Pick<ILauncher.IModel, 'items'> {
  return 'items' in launcher && typeof launcher.items === 'function';
}

/** Shows the folder with the lessons. Throws readable errors. */
async function openLessons(app: JupyterFrontEnd, { remotes }: IBridgeBackends): Promise<void> {
  const { folder } = await remotes.api.request<LessonsCopied>('POST', 'bridge/v1/examples');
  await app.commands.execute('filebrowser:go-to-path', { path: folder === '' ? '/' : folder });
}

/** A new notebook in `folder`, opened on a kernel of the bridge. */
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
function offerLessons(
  app: JupyterFrontEnd,
  launcher: ILauncher,
  backends: IBridgeBackends,
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
