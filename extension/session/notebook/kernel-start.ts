/**
 * The kernel of a notebook in this page: its running kernel, else the kernelspec that the notebook names, or one of its language, started
 * as soon as the gateway lists it. Never another language: then the page reports the missing kernelspec and leaves the notebook unchanged.
 */
import { SessionContextDialogs } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Session } from '@jupyterlab/services';
import { chooseKernel, type KernelChoice, kernelOf, type NotebookKernel } from '@tpulab/protocol';
import { labSpecName, remoteOfPlace, splitSpecName } from '../../src/backends/spec-names.js';
import type { Notice, Notices } from './notices.js';
import type { Managers } from './managers.js';
import { trans } from '../text.js';

/** How long a start waits for the kernelspecs of a slow gateway; if they arrive later, the start begins then. */
const SPECS_MS = 20_000;
/** Other pages may start the same kernel simultaneously, and a machine may be busy: number of start attempts. */
const TRIES = 4;
const RETRY_MS = 1_500;

/** The part of Lab's session context that adopts an existing session; its public calls start a session or ask for one. */
interface SessionReceiver {
  _handleNewSession(session: Session.ISessionConnection): void;
}

interface KernelStartOptions {
  readonly panel: NotebookPanel;
  readonly managers: Managers;
  readonly notices: Notices;
  /** A reader follows the owner's kernel, and starts none. */
  readonly isReadOnly: boolean;
  readonly onConnect: (remote: string) => void;
  /** Whether the server has no environment yet and can create one. */
  readonly canSetUp: () => Promise<boolean>;
  readonly onSetup: () => void;
}

export class KernelStart {
  constructor(private readonly options: KernelStartOptions) {
    const { panel, managers, isReadOnly } = options;
    const { sessionContext } = panel;
    managers.sessions.runningChanged.connect(this.onRunning, this);
    managers.kernelspecs.specsChanged.connect(this.onSpecs, this);
    sessionContext.kernelChanged.connect(this.onKernel, this);
    panel.disposed.connect(() => {
      managers.sessions.runningChanged.disconnect(this.onRunning, this);
      managers.kernelspecs.specsChanged.disconnect(this.onSpecs, this);
    });
    const change = sessionContext.changeKernel.bind(sessionContext);
    sessionContext.changeKernel = options => this.whileStarting(() => change(options));
    if (!isReadOnly) {
      const start = sessionContext.startKernel.bind(sessionContext);
      sessionContext.startKernel = () => this.start(start);
    }
    void sessionContext.ready.then(() => this.follow());
  }

  /** Same result as Lab's method: resolves with whether the user has to choose; this page asks in its own way. */
  private async start(start: () => Promise<boolean>): Promise<boolean> {
    const { panel, managers, notices } = this.options;
    const { sessionContext } = panel;
    notices.clear(NOTICE);
    for (let tried = 1; tried <= TRIES && !panel.isDisposed; tried += 1) {
      const choice = await this.choice();
      if (choice.kind === 'missing') {
        await this.showMissing(choice.wanted);
        return false;
      }
      sessionContext.kernelPreference = { ...sessionContext.kernelPreference, name: choice.name };
      if (!(await this.whileStarting(start))) return false;
      await wait(RETRY_MS);
      await managers.sessions.refreshRunning().catch(() => undefined);
      if (this.follow()) return false;
    }
    this.show(
      trans.__('No kernel could be started. You can read and edit; cells cannot run.'),
      trans.__('Try again')
    );
    return false;
  }

  private async choice(): Promise<KernelChoice> {
    const { panel, managers } = this.options;
    await panel.context.ready;
    const wanted = kernelOf({
      kernelspec: panel.model?.getMetadata('kernelspec') as unknown,
      language_info: panel.model?.getMetadata('language_info') as unknown
    });
    const end = performance.now() + SPECS_MS;
    for (;;) {
      const choice = this.chosen(wanted);
      if (choice.kind === 'found' || this.isListed || performance.now() > end || panel.isDisposed) {
        return choice;
      }
      await managers.kernelspecs.refreshSpecs().catch(() => undefined);
      // First start without an environment: no list will arrive.
      if (await this.needsSetup()) return choice;
      await wait(RETRY_MS / 3);
    }
  }

  private chosen(wanted: NotebookKernel): KernelChoice {
    const specs = this.options.managers.kernelspecs.specs;
    const names = Object.keys(specs?.kernelspecs ?? {});
    const { place } = splitSpecName(wanted.name);
    if (remoteOfPlace(place) !== null) {
      return names.includes(wanted.name) ? { kind: 'found', name: wanted.name } : { kind: 'missing', wanted };
    }
    // The page prefixes the gateway's kernelspec names with their place; a notebook has the gateway's own names.
    const local = names.filter(name => remoteOfPlace(splitSpecName(name).place) === null);
    const plain = new Map(local.map(name => [splitSpecName(name).name, name]));
    const languages = new Map(
      [...plain].map(([name, page]) => [name, specs?.kernelspecs[page]?.language ?? ''])
    );
    const own = { ...wanted, name: splitSpecName(wanted.name).name };
    const choice = chooseKernel(own, languages, splitSpecName(specs?.default ?? '').name);
    return choice.kind === 'found'
      ? { ...choice, name: plain.get(choice.name) ?? labSpecName('bridge', choice.name) }
      : choice;
  }

  /** Whether the gateway has listed its kernelspecs; a remote's list may arrive later, and is not awaited. */
  private get isListed(): boolean {
    const names = Object.keys(this.options.managers.kernelspecs.specs?.kernelspecs ?? {});
    return names.some(name => remoteOfPlace(splitSpecName(name).place) === null);
  }

  private async needsSetup(): Promise<boolean> {
    return !this.isListed && (await this.options.canSetUp());
  }

  private async showMissing({ name, displayName, language }: NotebookKernel): Promise<void> {
    const remote = remoteOfPlace(splitSpecName(name).place);
    if (remote !== null) {
      const connect = {
        label: trans.__('Connect to %1', remote),
        onClick: () => this.options.onConnect(remote)
      };
      this.show(
        trans.__('This notebook runs on %1, which is not connected. %2', remote, FILE_UNCHANGED),
        null,
        connect
      );
    } else if (await this.needsSetup()) {
      const setUp = { label: trans.__('Set up JAX'), onClick: this.options.onSetup };
      this.show(trans.__('No kernel is installed on this computer yet. %1', FILE_UNCHANGED), null, setUp);
    } else if (!this.isListed) {
      this.show(
        trans.__('The server lists no kernels; "tpulab env create jax" makes one. %1', FILE_UNCHANGED)
      );
    } else {
      const what = displayName === '' ? language : displayName;
      const kernel = what === '' ? `"${name}"` : `${what} ("${name}")`;
      this.show(
        trans.__('This notebook needs the kernel %1, which is not installed here. %2', kernel, FILE_UNCHANGED)
      );
    }
  }

  private show(
    text: string,
    again: string | null = trans.__('Check again'),
    first?: Notice['actions'][number]
  ): void {
    const { panel, managers, notices } = this.options;
    const check = async (): Promise<void> => {
      await managers.kernelspecs.refreshSpecs().catch(() => undefined);
      await panel.sessionContext.startKernel();
    };
    notices.show({
      id: NOTICE,
      tone: 'warning',
      text,
      actions: [
        ...(first ? [{ ...first, primary: true }] : []),
        ...(again === null ? [] : [{ label: again, primary: true, onClick: () => void check() }]),
        {
          label: trans.__('Choose another kernel…'),
          onClick: () => void new SessionContextDialogs().selectKernel(panel.sessionContext)
        }
      ]
    });
  }

  private onSpecs(): void {
    const { panel, notices } = this.options;
    const isMissing = notices.all.some(({ id }) => id === NOTICE);
    if (isMissing && panel.sessionContext.session === null) {
      void this.choice().then(({ kind }) => (kind === 'found' ? panel.sessionContext.startKernel() : null));
    }
  }

  private onKernel(_: unknown, { newValue }: { readonly newValue: unknown }): void {
    if (newValue !== null) this.options.notices.clear(NOTICE);
  }

  private async whileStarting<T>(start: () => Promise<T>): Promise<T> {
    this._starting += 1;
    try {
      return await start();
    } finally {
      this._starting -= 1;
    }
  }

  /** A session that this page starts is listed before its start has completed: adopted then, it would be replaced in mid-cell. */
  private onRunning(): void {
    if (this._starting === 0) this.follow();
  }

  /** Adopts the kernel that runs for this notebook; returns whether there is one. */
  private follow(): boolean {
    const { panel, managers } = this.options;
    const { sessionContext } = panel;
    const model = [...managers.sessions.running()].find(({ path }) => path === panel.context.path);
    // Until it is ready, the session context searches for a session itself.
    if (!model || !sessionContext.isReady || sessionContext.session !== null) {
      return sessionContext.session !== null;
    }
    const session = managers.sessions.connectTo({ model });
    (sessionContext as unknown as SessionReceiver)._handleNewSession(session);
    return true;
  }

  private _starting = 0;
}

const NOTICE = 'kernel-start';
const FILE_UNCHANGED = trans.__('You can read and edit; cells cannot run. Nothing was changed in the file.');

const wait = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));
