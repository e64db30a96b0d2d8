/**
 * Runs first in the frame of an output: builds its document, and reports its height, clicked links and load failures to the page.
 * The page trusts no message from the frame: an output may send anything through the same channel.
 */
import type { FrameContent, FromFrame } from './messages.js';

interface Received {
  readonly content: FrameContent;
  readonly port: MessagePort;
}

type Scope = typeof globalThis & { tpulabFrame?: Received };

const scope = globalThis as Scope;
const received = scope.tpulabFrame;
// The content gets the channel only where it is a part of the page.
if (received !== undefined && received.content.data === undefined) delete scope.tpulabFrame;
if (received !== undefined) void start(received);

async function start({ content, port }: Received): Promise<void> {
  const send = (message: FromFrame): void => port.postMessage(message);
  const { documentElement: root, body, head } = document;
  watch(send, root);
  const style = document.createElement('style');
  style.textContent = content.css;
  head.append(style);
  body.innerHTML = content.html;
  // Where libraries look up the theme: the attributes of JupyterLab, and of style sheets outside of it.
  body.dataset['jpThemeLight'] = content.isLight ?? 'true';
  root.classList.toggle('dark', content.isLight === 'false');
  // Code that waits for the end of the document gets that event, as in a page that inserts the output immediately.
  if (content.isScriptless === true) return;
  for (const script of body.querySelectorAll('script')) await run(script, copyOf(script));
  for (const text of content.scripts) {
    const script = document.createElement('script');
    script.textContent = text;
    body.append(script);
  }
  document.dispatchEvent(new Event('DOMContentLoaded'));
  dispatchEvent(new Event('load'));
}

/** A script inserted as HTML does not run; its copy does. */
function copyOf(script: HTMLScriptElement): HTMLScriptElement {
  const copy = document.createElement('script');
  for (const { name, value } of script.attributes) copy.setAttribute(name, value);
  copy.textContent = script.textContent;
  // Modules also run in document order.
  copy.async = script.hasAttribute('async');
  return copy;
}

/** Resolves when the next script may run: a network script is awaited, because later scripts often need it. */
function run(old: HTMLScriptElement, script: HTMLScriptElement): Promise<void> {
  // A script that calls document.write expects the text at its own position.
  // oxlint-disable-next-line typescript/no-deprecated -- outputs call this method
  document.write = (...html: string[]) => script.insertAdjacentHTML('beforebegin', html.join(''));
  const done =
    script.src === '' || script.hasAttribute('async')
      ? Promise.resolve()
      : new Promise<void>(resolve => {
          script.addEventListener('load', () => resolve());
          script.addEventListener('error', () => resolve());
        });
  old.replaceWith(script);
  return done;
}

function watch(send: (message: FromFrame) => void, root: HTMLElement): void {
  const sendHeight = (): void =>
    send({ kind: 'height', height: Math.ceil(root.getBoundingClientRect().height) });
  new ResizeObserver(sendHeight).observe(root);
  sendHeight();
  addEventListener(
    'error',
    event => {
      const { target } = event;
      const address =
        target instanceof HTMLScriptElement
          ? target.src
          : target instanceof HTMLLinkElement
            ? target.href
            : '';
      if (address !== '') send({ kind: 'missing', address });
      else if (event instanceof ErrorEvent) send({ kind: 'error', message: event.message });
    },
    true
  );
  addEventListener('unhandledrejection', ({ reason }) => send({ kind: 'error', message: String(reason) }));
  addEventListener('securitypolicyviolation', ({ blockedURI, effectiveDirective }) => {
    // A font has a fallback.
    const isMissed = /^https?:/.test(blockedURI) && !effectiveDirective.startsWith('font');
    if (isMissed) send({ kind: 'refused', address: blockedURI, directive: effectiveDirective });
  });
  // A link followed inside the frame would lead to a dead page.
  addEventListener(
    'click',
    event => {
      const link = event
        .composedPath()
        .find(node => node instanceof HTMLAnchorElement || node instanceof SVGAElement);
      const href = link?.getAttribute('href') ?? link?.getAttribute('xlink:href');
      if (!link || href == null || href === '' || /^javascript:/i.test(href)) return;
      if (href.startsWith('#')) {
        event.preventDefault();
        document.getElementById(decodeURIComponent(href.slice(1)))?.scrollIntoView();
        return;
      }
      event.preventDefault();
      send({ kind: 'link', href, download: link.getAttribute('download') });
    },
    true
  );
}
