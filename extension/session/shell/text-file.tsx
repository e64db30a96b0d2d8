/** One text file in the page: read, edited, saved. A change of another program is never overwritten without consent. */
import { type JSX, useEffect, useRef, useState } from 'react';
import { Prec } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { CodeEditor } from '@jupyterlab/codeeditor';
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';
import { utf8 } from '../files/drive.js';
import type { Part } from '../files/notebook-text.js';
import { type SaveState, Saving } from '../files/saving.js';
import { editorFactory, mimeTypes } from '../notebook/editors.js';
import { download } from '../../src/platform/download.js';
import { Notices } from '../notebook/notices.js';
import type { SessionPage } from '../page/session-page.js';
import { Brand, Button } from './plain.js';
import { FileBanners } from './file-banners.js';
import { Icon } from './icons.js';
import { NoticeBar } from './notice-bar.js';
import { saveText } from './top-bar.js';
import { useOwned, useSignals } from './use-signal.js';
import { messageOf, trans } from '../text.js';

/** An editor with more text would slow the page down. */
const MAX_BYTES = 5 * 1024 * 1024;
const PICTURE = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;

class NotTextError extends Error {}

/** A text and its file, which is saved on the user's request. */
class TextSaving extends Saving {
  readonly model = new CodeEditor.Model();

  constructor(
    private readonly page: SessionPage,
    readonly path: string
  ) {
    super(page.drive, page.access.isReadOnly);
    this.model.mimeType = mimeTypes.getMimeTypeByFilePath(path);
    this.model.sharedModel.changed.connect(() => {
      if (!this.isLoading) {
        this.isDirty = true;
        this.onModel();
      }
    });
  }

  /** Reads the file. Never rejects. */
  async open(): Promise<void> {
    await this.load().catch((error: unknown) => this.fail(messageOf(error)));
  }

  get isWritable(): boolean {
    return !this.isReadOnly && this.file?.writable === true;
  }
  override get needsSave(): boolean {
    return super.needsSave || this.state.kind === 'deleted';
  }

  /** The text as stored in the file. */
  text(): string {
    return this.byteOrderMark + this.model.sharedModel.getSource().replaceAll('\n', this.lineEnd);
  }
  parts(text: string): Part[] {
    return [{ text: text.replaceAll('\r\n', '\n'), whole: text }];
  }

  protected get isReady(): boolean {
    return this.file !== null;
  }
  protected get version(): string | undefined {
    return this.file?.hash;
  }
  protected override loaded(): SaveState {
    return this.isWritable ? super.loaded() : { kind: 'read-only' };
  }
  protected content(): Partial<Contents.IModel> {
    return { type: 'file', format: 'text', content: this.text() };
  }
  protected isSame({ content }: Contents.IModel): boolean {
    return content === this.text();
  }
  protected adopt(model: Contents.IModel): void {
    this.file = model;
  }
  protected async revert(): Promise<void> {
    const file = await this.fetch();
    this.show(file);
    this.isDirty = false;
    this.adopt({ ...file, content: null });
  }

  protected override async fetch(): Promise<Contents.IModel> {
    const { blob, model } = await this.page.drive.load(this.path);
    if (blob.size > MAX_BYTES) {
      throw new NotTextError(trans.__('It has more than 5 MB, which this editor does not open.'));
    }
    const content = await utf8(blob, { ignoreBOM: true });
    if (content.includes('\0')) throw new NotTextError(trans.__('It is not text.'));
    return { ...model, content };
  }

  protected show({ content }: Contents.IModel): void {
    const all = content as string;
    this.byteOrderMark = all.startsWith('\ufeff') ? '\ufeff' : '';
    const text = all.slice(this.byteOrderMark.length);
    this.lineEnd = /\r\n/.test(text) && !/(^|[^\r])\n/.test(text) ? '\r\n' : '\n';
    const lines = text.replaceAll('\r\n', '\n');
    this.isLoading = true;
    if (this.model.sharedModel.getSource() !== lines) this.model.sharedModel.setSource(lines);
    this.isLoading = false;
  }

  protected override readonly isAutomatic = false;
  protected isDirty = false;
  private file: Contents.IModel | null = null;
  private isLoading = false;
  /** Precedes the text: some programs require it, others fail on it. */
  private byteOrderMark = '';
  /** Ending of each line, if all are equal. */
  private lineEnd = '\n';
}

interface TextFileProps {
  readonly page: SessionPage;
  readonly path: string;
}

export default function TextFileView(props: TextFileProps): JSX.Element | null {
  const saving = useOwned(() => new TextSaving(props.page, props.path));
  return saving && <TextFile {...props} saving={saving} />;
}

function TextFile({ page, path, saving }: TextFileProps & { readonly saving: TextSaving }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [notices] = useState(() => new Notices());
  useSignals(saving.changed, notices.changed);
  const { state } = saving;
  useEffect(() => {
    const over = new AbortController();
    const { signal } = over;
    const on = (event: Event): void => {
      if (!saving.needsSave) return;
      void saving.save();
      event.preventDefault();
    };
    window.addEventListener('beforeunload', on, { signal });
    document.addEventListener(
      'keydown',
      event => {
        if (event.key.toLowerCase() !== 's' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        void saving.save();
      },
      { signal }
    );
    document.title = `${PathExt.basename(path)} · TPULab`;
    let editor: CodeEditor.IEditor | null = null;
    void saving.open().then(() => {
      if (host.current === null || signal.aborted) return;
      editor = editorFactory.newDocumentEditor({
        host: host.current,
        model: saving.model,
        config: { lineNumbers: true, readOnly: !saving.isWritable },
        extensions: [Prec.highest(EditorView.contentAttributes.of({ 'aria-label': PathExt.basename(path) }))]
      });
      if (saving.isWritable) editor.focus();
    });
    return () => {
      over.abort();
      editor?.dispose();
    };
  }, [saving, path]);
  const name = PathExt.basename(path);
  const save = async (): Promise<void> =>
    download(path, state.kind === 'unreadable' ? await page.drive.bytes(path) : saving.text());
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
          {state.kind === 'unreadable' ? '' : saveText(state, false)}
        </span>
        <Button
          className="tpl-mod-end"
          title={trans.__('Save (Ctrl+S)')}
          disabled={state.kind !== 'dirty' && state.kind !== 'failed'}
          onClick={() => void saving.save()}
        >
          {trans.__('Save')}
        </Button>
        <Button onClick={() => void save()}>{trans.__('Download')}</Button>
      </header>
      <div className="tpl-Banners">
        <FileBanners
          saving={saving}
          notices={notices}
          unchanged={trans.__('Its text is still in this page.')}
          onDownload={() => void save()}
        />
        {notices.all.map(notice => (
          <NoticeBar key={notice.id} notice={notice} onClose={() => notices.clear(notice.id)} />
        ))}
      </div>
      {state.kind === 'unreadable' ? (
        <main className="tpl-Home">
          {PICTURE.test(path) ? (
            <Picture page={page} path={path} />
          ) : (
            <p role="alert">{trans.__('%1 cannot be edited here. %2', name, state.why ?? '')}</p>
          )}
        </main>
      ) : (
        <main className="tpl-TextFile" ref={host} aria-label={name} />
      )}
    </div>
  );
}

function Picture({ page, path }: { readonly page: SessionPage; readonly path: string }): JSX.Element {
  const [source, setSource] = useState<string | null>(null);
  useEffect(() => void page.drive.getDownloadUrl(path).then(setSource), [page, path]);
  return source === null ? <p>{trans.__('Loading…')}</p> : <img src={source} alt={PathExt.basename(path)} />;
}
