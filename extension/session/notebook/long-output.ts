/** Long text scrolls in its own box, which follows the end while its cell runs, until the user scrolls away. */
const TEXT = '.jp-OutputArea-output.jp-RenderedText';
const RUNNING = '[data-tpl-state="running"]';
/** Distance from the end, in pixels. */
const END_DISTANCE_PX = 24;

/** Active until `signal` is aborted. */
export function followLongOutput(notebook: HTMLElement, signal: AbortSignal): void {
  const left = new WeakSet<Element>();
  const grown = new Set<Element>();
  let frame = 0;
  const follow = (): void => {
    frame = 0;
    for (const text of grown) text.scrollTop = text.scrollHeight;
    grown.clear();
  };
  const observer = new MutationObserver(changes => {
    for (const { target } of changes) {
      const text = (target instanceof Element ? target : target.parentElement)?.closest(TEXT);
      if (text && !left.has(text) && text.closest(RUNNING)) {
        grown.add(text);
        frame ||= requestAnimationFrame(follow);
      }
    }
  });
  observer.observe(notebook, { subtree: true, childList: true, characterData: true });
  const onScroll = ({ target }: Event): void => {
    if (target instanceof Element && target.matches(TEXT) && !grown.has(target)) {
      const isAtEnd = target.scrollHeight - target.scrollTop - target.clientHeight < END_DISTANCE_PX;
      left[isAtEnd ? 'delete' : 'add'](target);
    }
  };
  notebook.addEventListener('scroll', onScroll, { capture: true, passive: true, signal });
  signal.addEventListener('abort', () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
  });
}
