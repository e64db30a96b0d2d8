/**
 * Tabs for the output of a slice's other hosts, created from the folds that the kernel sends. Pages without this code show the folds
 * one below the other.
 */

/** Class of the element around the folds, in the kernel's HTML. */
export const HOSTS_CLASS = 'tpulab-hosts';

/** The open tab, which outlives an update: the kernel sends the folds again each second while the cell runs. */
export interface IOpenHost {
  /** Number of the host whose output is shown; null: all are folded. */
  host: number | null;
}

interface IFold {
  readonly details: HTMLDetailsElement;
  /** `hosts 1, 4-7` */
  readonly who: string;
  /** `different output (2 lines)` */
  readonly what: string;
  /** First and last numbers. */
  readonly ranges: readonly (readonly [number, number])[];
}

let made = 0;

/** Turns several folds in `root` into tabs. Their state is stored in `open`; `label` is the accessible name of the tab list. */
export function showHostTabs(root: HTMLElement, open: IOpenHost, label: string): void {
  const folds = [...root.querySelectorAll<HTMLDetailsElement>(`:scope > details`)].flatMap(readFold);
  const shown = folds.find(({ ranges }) => isIn(open.host, ranges)) ?? null;
  if (folds.length < 2) {
    for (const { details, ranges } of folds) {
      details.open = shown !== null;
      details.addEventListener('toggle', () => {
        open.host = details.open ? (ranges[0]?.[0] ?? null) : null;
      });
    }
    return;
  }
  const list = document.createElement('div');
  list.className = 'jp-TPULabHosts-tabs';
  list.setAttribute('role', 'tablist');
  list.setAttribute('aria-label', label);
  // The arrow keys control the tabs, not the cells of the notebook.
  list.dataset['lmSuppressShortcuts'] = 'true';
  const tabs = folds.map(fold => tabOf(fold));
  const select = (at: number | null): void => {
    open.host = at === null ? null : (folds[at]?.ranges[0]?.[0] ?? null);
    for (const [place, { tab, panel }] of tabs.entries()) {
      const isShown = place === at;
      tab.setAttribute('aria-selected', String(isShown));
      tab.tabIndex = place === (at ?? 0) ? 0 : -1;
      panel.hidden = !isShown;
    }
  };
  for (const [at, { tab }] of tabs.entries()) {
    tab.addEventListener('click', () => select(tab.getAttribute('aria-selected') === 'true' ? null : at));
    tab.addEventListener('keydown', event => {
      const to = target(event.key, at, tabs.length);
      if (to !== null) {
        event.preventDefault();
        select(to);
        tabs[to]?.tab.focus();
      }
    });
    list.append(tab);
  }
  const [first] = folds;
  first?.details.before(list);
  list.after(...tabs.map(({ panel }) => panel));
  for (const { details } of folds) details.remove();
  select(shown === null ? null : folds.indexOf(shown));
}

function tabOf({ details, who, what }: IFold): { tab: HTMLButtonElement; panel: HTMLElement } {
  const id = `tpulab-host-${++made}`;
  const tab = document.createElement('button');
  tab.type = 'button';
  tab.id = `${id}-tab`;
  tab.textContent = who;
  tab.title = what;
  tab.setAttribute('role', 'tab');
  tab.setAttribute('aria-controls', id);
  const panel = document.createElement('div');
  panel.id = id;
  panel.className = 'jp-TPULabHosts-panel';
  panel.tabIndex = 0;
  panel.setAttribute('role', 'tabpanel');
  panel.setAttribute('aria-labelledby', tab.id);
  const text = document.createElement('p');
  text.textContent = what;
  details.querySelector(':scope > summary')?.remove();
  panel.append(text, ...details.childNodes);
  return { tab, panel };
}

function readFold(details: HTMLDetailsElement): IFold[] {
  const line = details.querySelector(':scope > summary')?.textContent ?? '';
  const [, who, numbers, what] = /^(hosts? ([\d, -]+)): (.*)$/s.exec(line) ?? [];
  if (who === undefined || numbers === undefined || what === undefined) return [];
  const ranges = numbers.split(', ').map(range => {
    const [low = NaN, high = low] = range.split('-').map(Number);
    return [low, high] as const;
  });
  return [{ details, who, what, ranges }];
}

function isIn(host: number | null, ranges: IFold['ranges']): boolean {
  return host !== null && ranges.some(([low, high]) => low <= host && host <= high);
}

function target(key: string, at: number, count: number): number | null {
  switch (key) {
    case 'ArrowRight':
      return (at + 1) % count;
    case 'ArrowLeft':
      return (at + count - 1) % count;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return null;
  }
}
