/** Light or dark: JupyterLab's variables; the dark ones are fetched when they are first needed. */
import { Signal } from '@lumino/signaling';
import lightVariables from '@jupyterlab/theme-light-extension/style/variables.css?inline';

type ThemeChoice = 'light' | 'dark' | 'system';
const KEY = 'tpulab:session-theme';

export class Theme {
  constructor(private readonly storage: Storage | null) {
    const stored = storage?.getItem(KEY);
    this._choice = stored === 'light' || stored === 'dark' ? stored : 'system';
    this.style.id = 'tpulab-theme';
    document.head.prepend(this.style);
    this.system.addEventListener('change', () => void this.apply());
    void this.apply();
  }

  get choice(): ThemeChoice {
    return this._choice;
  }
  get isDark(): boolean {
    return this._choice === 'dark' || (this._choice === 'system' && this.system.matches);
  }
  readonly changed = new Signal<this, void>(this);

  choose(choice: ThemeChoice): void {
    this._choice = choice;
    try {
      this.storage?.setItem(KEY, choice);
    } catch {
      // The choice applies to this page only.
    }
    void this.apply();
  }

  private async apply(): Promise<void> {
    const { isDark } = this;
    const variables = isDark
      ? (await import('@jupyterlab/theme-dark-extension/style/variables.css?inline')).default
      : lightVariables;
    if (isDark !== this.isDark) {
      return; // chosen again in the meantime
    }
    this.style.textContent = variables;
    document.body.dataset['jpThemeLight'] = String(!isDark);
    document.body.dataset['jpThemeName'] = isDark ? 'JupyterLab Dark' : 'JupyterLab Light';
    document.documentElement.style.colorScheme = isDark ? 'dark' : 'light';
    this.changed.emit();
  }

  private _choice: ThemeChoice;
  private readonly style = document.createElement('style');
  private readonly system = window.matchMedia('(prefers-color-scheme: dark)');
}
