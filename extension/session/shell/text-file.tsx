/** One file of text in the page: read, edited, saved. What another program writes meanwhile is never overwritten unasked. */
import { type JSX, useEffect, useRef, useState } from 'react';
import { Prec } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { CodeEditor } from '@jupyterlab/codeeditor';
import { PathExt } from '@jupyterlab/coreutils';
import { FileRefusedError, type FileVersion } from '../files/file-client.js';
import { editorFactory, mimeTypes } from '../notebook/editors.js';
import { download } from '../../src/platform/download.js';
import type { Notice } from '../page/notices.js';
import type { SessionPage } from '../page/session-page.js';
import { Brand } from './plain.js';
import { Icon } from './icons.js';
import { NoticeBar } from './notice-bar.js';
import { messageOf, timeText, trans } from '../text.js';

/** An editor of more would make the page slow. */
const LARGEST_BYTES = 5 * 1024 * 1024;
/** How soon a change of the file is seen. */
const WATCH_MS = 3_000;
const PICTURE = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;

interface TextFile {
  readonly text: string;
  /** Before the text: some programs want it, others end at it. */
  readonly byteOrderMark: string;
  /** Of each line, as long as they are all alike. */
  readonly lineEnd: '\n' | '\r\n';
  readonly version: FileVersion;
}

class NotTextError extends Error {}

async function readText(page: SessionPage, path: string): Promise<TextFile> {
  const { blob, version } = await page.drive.files.load(path);
  if (blob.size > LARGEST_BYTES) {
    throw new NotTextError(trans.__('It has more than 5 MB, which this editor does not open.'));
  }
  let all: string;
  try {
    all = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await blob.arrayBuffer());
  } catch {
    throw new NotTextError(trans.__('It is not text in UTF-8.'));
  }
  if (all.includes('\0')) throw new NotTextError(trans.__('It is not text.'));
  const byteOrderMark = all.startsWith('\ufeff') ? '\ufeff' : '';
  const text = all.slice(byteOrderMark.length);
  const lineEnd = /\r\n/.test(text) && !/(^|[^\r])\n/.test(text) ? '\r\n' : '\n';
  return { text: text.replaceAll('\r\n', '\n'), byteOrderMark, lineEnd, version };
}

type State =
  | { readonly kind: 'loading' | 'clean' | 'dirty' | 'saving' | 'conflict' | 'deleted' }
  | { readonly kind: 'saved'; readonly at: number }
  | { readonly kind: 'failed' | 'refused'; readonly why: string };

/** The editor and the file behind it, apart from how they are shown. */
class EditedFile {
  readonly model = new CodeEditor.Model();

  constructor(
    private readonly page: SessionPage,
    readonly path: string,
    private readonly onState: (state: State) => void
  ) {
    this.model.mimeType = mimeTypes.getMimeTypeByFilePath(path);
    this.model.sharedModel.changed.connect(() => {
      if (
        !this.isLoading &&
        this.isWritable &&
        this.state.kind !== 'conflict' &&
        this.state.kind !== 'deleted'
      ) {
        this.say({ kind: 'dirty' });
      }
    });
  }

  get isWritable(): boolean {
    return !this.page.access.isReadOnly && this.file?.version.isWritable === true;
  }
  /** Whether leaving the page would lose something. */
  get hasUnsaved(): boolean {
    return !['loading', 'clean', 'saved', 'refused'].includes(this.state.kind);
  }
  /** As the file has it. */
  get text(): string {
    const { byteOrderMark = '', lineEnd = '\n' } = this.file ?? {};
    return byteOrderMark + this.model.sharedModel.getSource().replaceAll('\n', lineEnd);
  }

  /** From the disk, over what is here. */
  async load(): Promise<void> {
    try {
      const file = await readText(this.page, this.path);
      this.isLoading = true;
      if (this.model.sharedModel.getSource() !== file.text) this.model.sharedModel.setSource(file.text);
      this.file = file;
      this.say({ kind: 'clean' });
    } catch (error) {
      this.say({ kind: 'refused', why: messageOf(error) });
    } finally {
      this.isLoading = false;
    }
  }

  /** Never rejects. `over`: whatever is there now. */
  async save(over = false): Promise<void> {
    if (!this.isWritable || this.file === null || this.state.kind === 'saving') return;
    const { files } = this.page.drive;
    const text = this.text;
    const isDeleted = this.state.kind === 'deleted';
    const known = this.file.version;
    this.say({ kind: 'saving' });
    try {
      const replaced = !over ? known.etag : isDeleted ? null : (await files.look(this.path)).etag;
      const { etag } = await files.write(this.path, text, replaced);
      this.file = { ...this.file, version: { ...this.file.version, etag: etag ?? '' } };
      this.say(this.text === text ? { kind: 'saved', at: Date.now() } : { kind: 'dirty' });
    } catch (error) {
      const code = error instanceof FileRefusedError ? error.code : '';
      if (code === 'file_changed' || code === 'file_exists') this.say({ kind: 'conflict' });
      else if (code === 'file_not_found') this.say({ kind: 'deleted' });
      else this.say({ kind: 'failed', why: messageOf(error) });
    }
  }

  /** Mine into a new file, theirs into the editor. */
  async keepBoth(): Promise<void> {
    const extension = PathExt.extname(this.path);
    const stem = this.path.slice(0, this.path.length - extension.length);
    try {
      await this.page.drive.create(`${stem}-mine${extension}`, this.text);
      await this.load();
    } catch (error) {
      this.say({ kind: 'failed', why: messageOf(error) });
    }
  }

  /** Whether another program has written or deleted the file. */
  async watch(): Promise<void> {
    const { file, state } = this;
    if (file === null || document.hidden || state.kind === 'saving') return;
    const found = await this.page.drive.get(this.path, { content: false }).then(
      model => model.hash ?? '',
      (error: unknown) => ((error as { code?: string }).code === 'file_not_found' ? null : file.version.etag)
    );
    if (this.file !== file || this.state !== state || found === file.version.etag) return;
    if (found === null) this.say({ kind: 'deleted' });
    else if (this.hasUnsaved) this.say({ kind: 'conflict' });
    else await this.load();
  }

  private say(state: State): void {
    this.state = state;
    this.onState(state);
  }

  private state: State = { kind: 'loading' };
  private file: TextFile | null = null;
  private isLoading = false;
}

export default function TextFileView({
  page,
  path
}: {
  readonly page: SessionPage;
  readonly path: string;
}): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<State>({ kind: 'loading' });
  const [file, setFile] = useState<EditedFile | null>(null);
  useEffect(() => {
    const edited = new EditedFile(page, path, setState);
    setFile(edited);
    const over = new AbortController();
    const { signal } = over;
    const on = (event: Event): void => {
      if (!edited.hasUnsaved) return;
      void edited.save();
      event.preventDefault();
    };
    window.addEventListener('beforeunload', on, { signal });
    const timer = setInterval(() => void edited.watch(), WATCH_MS);
    document.addEventListener(
      'keydown',
      event => {
        if (event.key.toLowerCase() !== 's' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        void edited.save();
      },
      { signal }
    );
    document.title = `${PathExt.basename(path)} · TPULab`;
    let editor: CodeEditor.IEditor | null = null;
    void edited.load().then(() => {
      if (host.current === null || signal.aborted) return;
      editor = editorFactory.newDocumentEditor({
        host: host.current,
        model: edited.model,
        config: { lineNumbers: true, readOnly: !edited.isWritable },
        extensions: [Prec.highest(EditorView.contentAttributes.of({ 'aria-label': PathExt.basename(path) }))]
      });
      if (edited.isWritable) editor.focus();
    });
    return () => {
      over.abort();
      clearInterval(timer);
      editor?.dispose();
    };
  }, [page, path]);
  const name = PathExt.basename(path);
  const notice = file === null ? null : noticeOf(state, file);
  return (
    <div className="tpl-Page">
      <header className="tpl-TopBar" data-tpl-region="top">
        <a className="tpl-IconButton" href={document.baseURI} aria-label={trans.__('All files')}>
          <Icon name="left" />
        </a>
        <Brand />
        <h1 className="tpl-TopBar-name" title={path}>
          {name}
        </h1>
        <span className={`tpl-TopBar-saved jp-mod-${state.kind}`} role="status">
          {stateText(state, file?.isWritable === true)}
        </span>
        <button
          type="button"
          className="tpl-Button tpl-mod-end"
          title={trans.__('Save (Ctrl+S)')}
          disabled={state.kind !== 'dirty' && state.kind !== 'failed'}
          onClick={() => void file?.save()}
        >
          {trans.__('Save')}
        </button>
        <button
          type="button"
          className="tpl-Button"
          onClick={() => void downloaded(page, path, state.kind === 'refused' ? null : (file?.text ?? ''))}
        >
          {trans.__('Download')}
        </button>
      </header>
      <div className="tpl-Banners">
        {notice === null ? null : <NoticeBar notice={notice} onClose={null} />}
      </div>
      {state.kind === 'refused' ? (
        <main className="tpl-Home">
          {PICTURE.test(path) ? (
            <Picture page={page} path={path} />
          ) : (
            <p role="alert">{trans.__('%1 cannot be edited here. %2', name, state.why)}</p>
          )}
        </main>
      ) : (
        <main className="tpl-TextFile" ref={host} aria-label={name} />
      )}
    </div>
  );
}

/** `text`: what is in the editor; null: the file as it is. */
async function downloaded(page: SessionPage, path: string, text: string | null): Promise<void> {
  download(path, text ?? (await page.drive.bytes(path)));
}

function stateText(state: State, isWritable: boolean): string {
  switch (state.kind) {
    case 'loading':
      return trans.__('Loading…');
    case 'clean':
      return isWritable ? '' : trans.__('Read-only');
    case 'dirty':
      return trans.__('Unsaved changes');
    case 'saving':
      return trans.__('Saving…');
    case 'saved':
      return trans.__('Saved at %1', timeText(state.at));
    case 'conflict':
    case 'deleted':
    case 'failed':
      return trans.__('Not saved');
    case 'refused':
      return '';
  }
}

function noticeOf(state: State, file: EditedFile): Notice | null {
  const name = PathExt.basename(file.path);
  const of = (text: string, actions: Notice['actions'] = []): Notice => ({
    ...{ id: 'file', tone: 'error', text, actions }
  });
  const save = (): void => void file.save(true);
  switch (state.kind) {
    case 'conflict':
      return of(trans.__('Another program has changed %1. Your changes are in this page only.', name), [
        { label: trans.__('Keep both'), primary: true, onClick: () => void file.keepBoth() },
        { label: trans.__('Keep mine'), onClick: save },
        { label: trans.__('Take theirs'), onClick: () => void file.load() }
      ]);
    case 'deleted':
      return of(trans.__('%1 was deleted or moved. Its text is in this page only.', name), [
        { label: trans.__('Save it again'), primary: true, onClick: save }
      ]);
    case 'failed':
      return of(trans.__('%1 was not saved: %2', name, state.why));
    default:
      return null;
  }
}

function Picture({ page, path }: { readonly page: SessionPage; readonly path: string }): JSX.Element {
  const [source, setSource] = useState<string | null>(null);
  useEffect(() => void page.drive.getDownloadUrl(path).then(setSource), [page, path]);
  return source === null ? <p>{trans.__('Loading…')}</p> : <img src={source} alt={PathExt.basename(path)} />;
}
