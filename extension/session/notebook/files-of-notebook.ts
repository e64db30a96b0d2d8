/** The files and links that a notebook references: relative to its folder, in Markdown, in outputs and in their frames. */
import { PathExt } from '@jupyterlab/coreutils';
import { showErrorMessage } from '@jupyterlab/apputils';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { shownAddress, typeOf } from '../files/shown-address.js';
import { sure } from '../../src/ui/sure.js';
import { download } from '../../src/platform/download.js';
import { messageOf, trans } from '../text.js';

/** Everything that a frame loads by address. */
const LOADS = /<(?:img|audio|video|source|track|iframe|script|link)\b/i;
const MAX_DEPTH = 2;

interface FilesOptions {
  readonly path: () => string;
  /** @throws when the file does not exist */
  readonly bytes: (path: string) => Promise<Blob>;
  readonly openNotebook: (path: string, hash: string) => void;
}

export class Files implements IRenderMime.ILinkHandler {
  constructor(private readonly options: FilesOptions) {}

  handleLink(anchor: HTMLElement, path: string, hash = ''): void {
    anchor.addEventListener('click', event => {
      event.preventDefault();
      void this.open(path, hash);
    });
  }

  /** Follows a link in a frame, which cannot open anything itself. */
  readonly follow = (href: string, name: string | null): void => {
    const local = this.localPath(href);
    if (local !== null) void this.open(local.path, local.hash);
    else if (/^(data|blob):/i.test(href)) this.save(href, name);
    else if (/^(https?|mailto):/i.test(href)) void this.openElsewhere(href);
  };

  /** HTML for a frame, which cannot reach files: files of the notebook's folder are inlined. */
  async inlined(html: string, folder = PathExt.dirname(this.options.path()), depth = 0): Promise<string> {
    if (!LOADS.test(html)) return html;
    const template = document.createElement('template');
    template.innerHTML = html;
    const elements = [...template.content.querySelectorAll('[src], link[href], [poster]')];
    await Promise.all(elements.map(element => this.inline(element, folder, depth)));
    return template.innerHTML;
  }

  private async inline(element: Element, folder: string, depth: number): Promise<void> {
    for (const name of ['src', 'href', 'poster']) {
      const address = element.getAttribute(name);
      if (address === null || (name === 'href' && element.localName !== 'link')) continue;
      const local = this.localPath(address, folder);
      if (element.localName === 'iframe') {
        await this.inlineFrame(element, local?.path ?? null, address, depth);
      } else if (local !== null && element.localName === 'script') {
        element.removeAttribute('src');
        element.textContent = await this.text(local.path);
      } else if (local !== null) {
        element.setAttribute(name, (await shownAddress(local.path, this.options.bytes)) ?? address);
      }
    }
  }

  /** Content of a frame inside the output: a document, a text or a picture; otherwise a link. */
  private async inlineFrame(
    frame: Element,
    path: string | null,
    address: string,
    depth: number
  ): Promise<void> {
    try {
      const shown = path === null ? documentIn(address) : await this.frameDocument(path, depth);
      if (shown !== null) {
        frame.removeAttribute('src');
        frame.setAttribute('srcdoc', shown);
      } else if (path !== null)
        frame.replaceWith(linkTo(trans.__('This file is not shown in an output: '), address));
      else if (/^https?:/i.test(address))
        frame.replaceWith(linkTo(trans.__('The session page shows no other sites: '), address));
    } catch (error) {
      frame.replaceWith(messageOf(error));
    }
  }

  /** Null: the type cannot be shown. */
  private async frameDocument(path: string, depth: number): Promise<string | null> {
    const extension = PathExt.extname(path).slice(1).toLowerCase();
    if (typeOf(path)?.startsWith('image/'))
      return `<img src="${await shownAddress(path, this.options.bytes)}">`;
    const text = textIn(await (await this.options.bytes(path)).arrayBuffer());
    if (text === null) return null;
    if (!/^x?html?$/.test(extension)) return asText(text);
    return depth < MAX_DEPTH ? this.inlined(text, PathExt.dirname(path), depth + 1) : text;
  }

  private async text(path: string): Promise<string> {
    try {
      return await (await this.options.bytes(path)).text();
    } catch (error) {
      return `console.error(${JSON.stringify(`${path}: ${messageOf(error)}`)})`;
    }
  }

  private async open(path: string, hash: string): Promise<void> {
    try {
      if (path.endsWith('.ipynb')) {
        await this.options.bytes(path);
        this.options.openNotebook(path, hash);
      } else {
        download(path, await this.options.bytes(path));
      }
    } catch (error) {
      await showErrorMessage(trans.__('%1 cannot be opened', PathExt.basename(path)), messageOf(error));
    }
  }

  private save(href: string, name: string | null): void {
    const link = document.createElement('a');
    link.href = href;
    link.download = name === null || name === '' ? 'output' : name;
    link.click();
  }

  private async openElsewhere(href: string): Promise<void> {
    const isAgreed = await sure(
      trans.__('Open this link?'),
      trans.__('The output leads to %1', href),
      trans.__('Open')
    );
    if (isAgreed) window.open(href, '_blank', 'noopener,noreferrer');
  }

  /** Path below the root folder; null: an address outside of it. */
  private localPath(
    href: string,
    folder = PathExt.dirname(this.options.path())
  ): { readonly path: string; readonly hash: string } | null {
    if (href === '' || /^([a-z][a-z0-9+.-]*:|\/|#)/i.test(href)) return null;
    const base = `file:///${folder.split('/').map(encodeURIComponent).join('/')}/`;
    try {
      const { pathname, hash } = new URL(href, base);
      return { path: decodeURIComponent(pathname).replace(/^\/+/, ''), hash };
    } catch {
      return null;
    }
  }
}

function linkTo(text: string, address: string): HTMLElement {
  const link = document.createElement('a');
  link.href = address;
  link.textContent = address;
  const line = document.createElement('p');
  line.append(text, link);
  return line;
}

/** Decoded as UTF-8; null: not a text. */
function textIn(bytes: BufferSource): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('\0') || text.startsWith('%PDF') ? null : text;
  } catch {
    return null;
  }
}

function asText(text: string): string {
  const shown = document.createElement('pre');
  shown.textContent = text;
  return shown.outerHTML;
}

/** The HTML or text contained in a data address; null: none. */
function documentIn(address: string): string | null {
  const [, type = '', base64, body = ''] =
    /^data:([^,;]*)(?:;(?!base64)[^,;]*)*(;base64)?,(.*)$/is.exec(address) ?? [];
  if (!/^text\/(html|plain)$|^$/i.test(type) || body === '') return null;
  const plain = decodeURIComponent(body);
  const text =
    base64 === undefined ? plain : textIn(Uint8Array.from(atob(plain), character => character.charCodeAt(0)));
  return text === null || /html$/i.test(type) ? text : asText(text);
}
