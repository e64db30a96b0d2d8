/** A few words for making elements, because these views must be small: their text travels to the page with each widget. */

type Child = Node | string | null;

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number | boolean | null>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => child !== null));
  return element;
}

/** Replaces the text only when it is another: a selection in it stays, and nothing is laid out again. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** A bar that people hear as a meter. */
export function meter(
  name: string,
  kind: string
): { element: HTMLElement; set(percent: number, text: string): void } {
  const used = make('span', { class: `tpulab-used tpulab-${kind}` });
  const element = make(
    'span',
    {
      class: 'tpulab-bar',
      role: 'meter',
      'aria-label': name,
      'aria-valuemin': 0,
      'aria-valuemax': 100,
      'aria-valuenow': 0
    },
    used
  );
  return {
    element,
    set(percent, text) {
      const whole = Math.round(percent);
      used.style.width = `${whole}%`;
      element.setAttribute('aria-valuenow', String(whole));
      element.setAttribute('aria-valuetext', text);
    }
  };
}

/** Calls `draw` once in a while when asked, and only while `el` is on the screen. */
export function calmly(
  el: HTMLElement,
  draw: () => void,
  intervalMs = 250
): { ask(): void; dispose(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isDue = false;
  let isSeen = false;
  const views = new IntersectionObserver(entries => {
    isSeen = entries.at(-1)?.isIntersecting ?? false;
    if (isSeen && isDue) {
      ask();
    }
  });
  views.observe(el);
  const ask = (): void => {
    isDue = true;
    if (timer !== undefined || !isSeen || document.hidden) {
      return;
    }
    isDue = false;
    draw();
    timer = setTimeout(() => {
      timer = undefined;
      if (isDue) {
        ask();
      }
    }, intervalMs);
  };
  const onVisible = (): void => {
    if (!document.hidden && isDue) {
      ask();
    }
  };
  document.addEventListener('visibilitychange', onVisible);
  return {
    ask,
    dispose() {
      clearTimeout(timer);
      views.disconnect();
      document.removeEventListener('visibilitychange', onVisible);
    }
  };
}
