/** A drawing that follows its size, its visibility and the theme. */
import type { IDisposable } from '@lumino/disposable';
import type { Drawing, DrawLoop } from './draw-loop.js';

export abstract class SizedDrawing implements Drawing, IDisposable {
  /** @param sized the element whose size it has */
  constructor(
    protected readonly loop: DrawLoop,
    host: Element,
    sized = host
  ) {
    this._sizes = new ResizeObserver(entries => {
      const box = entries.at(-1)?.contentRect;
      if (!box) return;
      this.width = Math.floor(box.width);
      this.height = Math.floor(box.height);
      this.resized();
    });
    this._sizes.observe(sized);
    this._views = new IntersectionObserver(entries => {
      this._inView = entries.at(-1)?.isIntersecting ?? false;
      loop.wake();
    });
    this._views.observe(host);
    // JupyterLab names its theme on the body; a painted canvas does not change by itself.
    this._themes = new MutationObserver(() => this.renew());
    this._themes.observe(document.body, {
      attributes: true,
      attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light']
    });
  }

  get isVisible(): boolean {
    return this._inView && this.width > 0 && !document.hidden;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  abstract draw(): void;

  dispose(): void {
    this._isDisposed = true;
    this.loop.forget(this);
    for (const observer of [this._sizes, this._views, this._themes]) observer.disconnect();
  }

  /** Redraws in the present theme's colours. */
  protected renew(): void {
    this.loop.request(this);
  }

  protected resized(): void {
    this.loop.request(this);
  }

  protected width = 0;
  protected height = 0;
  private readonly _sizes: ResizeObserver;
  private readonly _views: IntersectionObserver;
  private readonly _themes: MutationObserver;
  private _inView = false;
  private _isDisposed = false;
}
