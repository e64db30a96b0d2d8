/** Decides which outputs count as scripted, and builds the document of their frame. Independent of the page and of trust. */
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

type Data = ReadonlyPartialJSONObject;

const SCRIPT_TYPES = ['application/javascript', 'text/javascript'] as const;
const SCRIPTED = /<(?:script|iframe)\b|<[a-z][^<>]*[\s/]on[a-z]+\s*=/i;
/** Marks a script that loads a library for later outputs, as Bokeh and HoloViews do. */
const LOADS = /_load\.v\d+\+json$/;
/** The same libraries: a script that draws into the HTML of the previous output. */
const DRAWS = /_exec\.v\d+\+json$/;
/** Invisible elements: the start of each, and its end. */
const INVISIBLE_ELEMENTS = /<(script|style)\b|<!--|<(?:meta|link)\b/gi;
/** A short script alone draws something itself; a long script, or one that loads another script, is a library. */
const LIBRARY_CHARS = 50_000;
const LOADS_SCRIPT = /<script\b[^>]*\ssrc=|\bimport\s*["'(]/i;

export function hasScripts(data: Data): boolean {
  return scriptOf(data) !== null || SCRIPTED.test(textOf(data['text/html']) ?? '');
}

/** Code that later outputs need; null: none. */
export function libraryOf(data: Data): string | null {
  const script = scriptOf(data);
  if (script !== null && Object.keys(data).some(mimeType => LOADS.test(mimeType))) return asElement(script);
  const html = textOf(data['text/html']) ?? '';
  const isLibrary = html.length > LIBRARY_CHARS || LOADS_SCRIPT.test(html);
  if (!isLibrary || !hasScripts(data)) return null;
  return isVisible(html) ? longScripts(html) : html;
}

/** The libraries in an output that also shows something; null: none. */
function longScripts(html: string): string | null {
  const found: string[] = [];
  for (const begin of html.matchAll(/<script\b[^<>]*>/gi)) {
    const end = html.indexOf('</script>', begin.index);
    if (end < 0) break;
    if (end - begin.index > LIBRARY_CHARS) found.push(html.slice(begin.index, end + '</script>'.length));
  }
  return found.length === 0 ? null : found.join('\n');
}

/** The libraries of a notebook, for one of its outputs. Their position is irrelevant: cells run in any order. */
export function librariesOf(
  outputs: Iterable<{ readonly trusted: boolean; readonly data: Data }>,
  shown: unknown
): readonly string[] {
  const found = new Set<string>();
  for (const output of outputs) {
    const library = output !== shown && output.trusted ? libraryOf(output.data) : null;
    if (library !== null) found.add(library);
  }
  return [...found];
}

/** The content of an output: with the HTML of the previous output, if its script draws there. */
export function drawnTogether(data: Data, before: Data | undefined): Data {
  const html = before?.['text/html'];
  return html !== undefined &&
    data['text/html'] === undefined &&
    Object.keys(data).some(mimeType => DRAWS.test(mimeType))
    ? { ...data, 'text/html': html }
    : data;
}

export function frameHtml(data: Data): string {
  const script = scriptOf(data);
  return [
    textOf(data['text/html']) ?? '',
    // IPython gives a script the element below which it may draw. An error replaces the script's output, as in JupyterLab.
    ...(script === null
      ? []
      : [
          '<div id="tpulab-output"></div>',
          asElement(
            `var element = document.getElementById('tpulab-output');\n` +
              `addEventListener('error', ({ message }) => element.append('Javascript Error: ' + message));\n` +
              `addEventListener('unhandledrejection', ({ reason }) => element.append('Javascript Error: ' + reason));`
          ),
          asElement(script)
        ])
  ].join('\n');
}

/** Styles that the frame inherits from its place in the page. The background too: a library may choose light or dark text for the frame. */
export function frameStyle(node: Element): string {
  const { color, font } = getComputedStyle(node);
  const scheme = document.body.dataset['jpThemeLight'] === 'false' ? 'dark' : 'light';
  let background = '';
  for (
    let at: Element | null = node;
    at !== null && /^($|transparent|rgba\(.*, 0\))/.test(background);
    at = at.parentElement
  )
    background = getComputedStyle(at).backgroundColor;
  return `:root { color-scheme: ${scheme}; } html { background: ${background}; } body { margin: 0; color: ${color}; font: ${font}; }`;
}

function scriptOf(data: Data): string | null {
  for (const type of SCRIPT_TYPES) {
    const script = textOf(data[type]);
    if (script !== null) return script;
  }
  return null;
}

/** Whether there is content besides scripts, styles and comments. An element without an end tag is not run. */
function isVisible(html: string): boolean {
  let at = 0;
  for (const begin of html.matchAll(INVISIBLE_ELEMENTS)) {
    if (begin.index < at) continue;
    if (html.slice(at, begin.index).trim() !== '') return true;
    const [, element] = begin;
    const end =
      element === undefined ? (begin[0] === '<!--' ? /-->/g : />/g) : new RegExp(`</${element}\\s*>`, 'gi');
    end.lastIndex = begin.index;
    if (end.exec(html) === null) return true;
    at = end.lastIndex;
  }
  return html.slice(at).trim() !== '';
}

/** Escapes the end tag inside the text of a script. */
function asElement(script: string): string {
  return `<script>${script.replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--')}</script>`;
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : Array.isArray(value) ? value.join('') : null;
}
