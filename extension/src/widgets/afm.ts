/** The form of a widget's front end that runs in any host: anywidget's, or ours in JupyterLab. */

/** The model interface that a host must provide. Names follow the standard. */
export interface AnyModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, callback: (...args: unknown[]) => void): void;
  off(event: string, callback?: ((...args: unknown[]) => void) | null): void;
  send(content: unknown): void;
}

export interface RenderProps {
  readonly model: AnyModel;
  readonly el: HTMLElement;
}

export interface WidgetModule {
  initialize?(props: { readonly model: AnyModel }): void;
  /** May return a function that cleans up after the view. */
  render(props: RenderProps): () => void;
}
