/**
 * Runs first in the frame of an output: builds its document, and tells the page its height, which link was clicked, and what could not
 * be loaded. The page believes nothing of it: an output may say anything through the same channel.
 */
import type { FrameContent, FromFrame } from './messages.js';

interface Received {
  readonly content: FrameContent;
  readonly port: MessagePort;
}

type Scope = typeof globalThis & { tpulabFrame?: Received };

const scope = globalThis as Scope;
const received = scope.tpulabFrame;
// What is shown gets the channel only where it is a part of the page.
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
  // Where libraries look for the theme: as in JupyterLab, and as style sheets outside of it do.
  body.dataset['jpThemeLight'] = content.isLight ?? 'true';
  root.classList.toggle('dark', content.isLight === 'false');
  // What asks for the end of the document before it acts sees it, as in a page where the output is put into place at once.
  if (content.isStill === true) return;
  for (const script of body.querySelectorAll('script')) await run(script, copyOf(script));
  for (const text of content.scripts) {
    const script = document.createElement('script');
    script.textContent = text;
    body.append(script);
  }
  document.dispatchEvent(new Event('DOMContentLoaded'));
  dispatchEvent(new Event('load'));
}

/** A script that came as HTML does not run; its copy does. */
function copyOf(script: HTMLScriptElement): HTMLScriptElement {
  const copy = document.createElement('script');
  for (const { name, value } of script.attributes) copy.setAttribute(name, value);
  copy.textContent = script.textContent;
  // Modules too in the order in which they stand.
  copy.async = script.hasAttribute('async');
  return copy;
}

/** Resolves when the next script may run: one from the network is waited for, as what follows often needs it. */
function run(old: HTMLScriptElement, script: HTMLScriptElement): Promise<void> {
  // A script that writes into the document means the place where it stands.
  // oxlint-disable-next-line typescript/no-deprecated -- what is replaced is what outputs call
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
    // A font has a substitute.
    const isMissed = /^https?:/.test(blockedURI) && !effectiveDirective.startsWith('font');
    if (isMissed) send({ kind: 'refused', address: blockedURI, directive: effectiveDirective });
  });
  // In the frame itself a link would lead to a dead page.
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
