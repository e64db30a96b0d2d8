/** The frame of one output: an opaque origin, which gets its content through a channel, and reports its height through it. */
import bootAddress from '../frame/boot.ts?frame';
import type { FrameContent, FromFrame, ToFrame } from '../frame/messages.js';
import { trans } from '../text.js';

/** A taller output scrolls in its frame. */
const MAX_HEIGHT_PX = 4_000;
/** Less than a line. */
const EMPTY_HEIGHT_PX = 12;
const MAX_LINES = 5;
const GRACE_MS = 1_000;
/** Attempts to load a frame before the output reports that it cannot be shown. */
const MAX_LOADS = 10;

interface FrameHost {
  readonly content: () => Promise<FrameContent>;
  readonly onLink: (href: string, download: string | null) => void;
  /** Further messages between the page and the script of the frame. */
  readonly onMessage?: (message: FromFrame, answer: (message: ToFrame) => void) => void;
  /** A channel to a new document begins. */
  readonly onLoad?: () => void;
}

const texts = new Map<string, Promise<string>>();

/** Address of a script of this page that runs in frames. */
export function frameScript(address: string): Promise<string> {
  let text = texts.get(address);
  if (text === undefined) {
    text = tpulabRetry(async () => {
      const answer = await fetch(new URL(address, document.baseURI));
      if (!answer.ok) throw new Error(trans.__('The server answered %1 to %2.', answer.status, address));
      return answer.text();
    });
    // Requested again with the next output.
    text.catch(() => texts.delete(address));
    texts.set(address, text);
  }
  return text;
}

export class OutputFrame {
  readonly node = document.createElement('div');
  private readonly frame = document.createElement('iframe');
  private readonly lines = new Set<string>();
  private readonly ended = new AbortController();
  private port: MessagePort | null = null;
  private loads = 0;
  /** Number of loads with our own document. */
  private begun = 0;
  /** Number of loads that failed in the network. */
  private failed = 0;
  /** The window of our last document. */
  private ready: unknown = null;
  /** The frame has left its document, and would do so again. */
  private isScriptless = false;

  constructor(private readonly host: FrameHost) {
    const { frame } = this;
    this.node.className = 'tpl-FramedOutput';
    frame.className = 'tpl-OutputFrame';
    frame.title = trans.__('Output with scripts');
    // Never `allow-same-origin`: with it, the frame could act as this page.
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.referrerPolicy = 'no-referrer';
    frame.src = new URL('_frame', document.baseURI).href;
    const { signal } = this.ended;
    window.addEventListener(
      'message',
      ({ source, data }: MessageEvent<{ readonly tpulabFrame?: unknown } | null>) => {
        // Repeated at each load: moving a cell removes its frame from the page, and the frame comes back empty.
        if (source === frame.contentWindow && data?.tpulabFrame === 'ready') {
          this.begun += 1;
          this.ready = source;
          void this.send();
        }
      },
      { signal }
    );
    frame.addEventListener('load', () => this.onLoad(), { signal });
    this.node.append(frame);
  }

  /** Whether nothing is drawn in it, as last reported. */
  get isEmpty(): boolean {
    return Number.parseFloat(this.frame.style.height) < EMPTY_HEIGHT_PX;
  }

  readonly answer = (message: ToFrame): void => this.port?.postMessage(message);

  /** Adds a line below the output, once. */
  showText(text: string): void {
    if (this.lines.has(text) || this.lines.size >= MAX_LINES) return;
    this.lines.add(text);
    this.node.append(outputLine(text));
  }

  dispose(): void {
    this.ended.abort();
    this.port?.close();
    this.node.remove();
  }

  private async send(): Promise<void> {
    const target = this.frame.contentWindow;
    try {
      const [boot, content] = await Promise.all([frameScript(bootAddress), this.host.content()]);
      if (this.ended.signal.aborted || target !== this.frame.contentWindow) return;
      this.port?.close();
      const { port1, port2 } = new MessageChannel();
      this.port = port1;
      port1.addEventListener('message', ({ data }: MessageEvent<FromFrame | null>) => {
        if (data !== null) this.receive(data);
      });
      port1.start();
      this.host.onLoad?.();
      // The frame has no origin that could be named, and gets nothing but its own output.
      target?.postMessage(
        {
          boot,
          content: {
            ...content,
            isScriptless: this.isScriptless,
            isLight: document.body.dataset['jpThemeLight']
          }
        },
        '*',
        [port2]
      );
    } catch (error) {
      this.showText(error instanceof Error ? error.message : String(error));
    }
  }

  /** Another document that the output loaded in its own place sends no message, and the browser refuses it. */
  private onLoad(): void {
    this.loads += 1;
    // The frame's message and its load event may arrive in either order.
    setTimeout(() => {
      if (this.ended.signal.aborted || this.loads <= this.begun) return;
      this.begun = this.loads;
      if (this.ready === this.frame.contentWindow) {
        this.isScriptless = true;
        this.showText(
          trans.__('This output tried to open another page in its place, which outputs cannot do.')
        );
      } else if ((this.failed += 1) === MAX_LOADS) {
        this.showText(trans.__('The server did not answer, so this output is not shown. Reload the page.'));
        return;
      }
      this.frame.src = new URL('_frame', document.baseURI).href;
    }, GRACE_MS);
  }

  private receive(message: FromFrame): void {
    switch (message.kind) {
      case 'height':
        if (message.height >= 0) this.frame.style.height = `${Math.min(message.height, MAX_HEIGHT_PX)}px`;
        return;
      case 'link':
        // A script can send this message too; only a click of the user makes the activation active.
        if (navigator.userActivation.isActive)
          this.host.onLink(
            String(message.href),
            typeof message.download === 'string' ? message.download : null
          );
        return;
      case 'missing':
        this.showText(
          trans.__('This output needs the network: %1 could not be loaded.', shortened(message.address))
        );
        return;
      case 'refused':
        this.showText(refusal(String(message.address), String(message.directive)));
        return;
      default:
        this.host.onMessage?.(message, this.answer);
    }
  }
}

function refusal(address: string, directive: string): string {
  const host = URL.canParse(address) ? new URL(address).host : address;
  return directive.startsWith('script')
    ? trans.__('This output loads code from %1, which the session page does not allow.', host)
    : directive === 'frame-src'
      ? trans.__('The session page shows no other sites: %1', shortened(address))
      : trans.__('This output asks for %1, which the session page does not allow.', shortened(address));
}

const shortened = (address: unknown): string => {
  const text = String(address);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
};

export function outputLine(text: string, ...more: HTMLElement[]): HTMLElement {
  const line = document.createElement('p');
  line.className = 'tpl-ScriptsNote';
  line.append(text, ...more);
  return line;
}
