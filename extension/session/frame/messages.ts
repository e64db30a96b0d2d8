/** Messages between the page and the frame of an output. */

export interface FrameContent {
  readonly html: string;
  readonly css: string;
  /** JupyterLab's theme attribute, where libraries look it up. */
  readonly isLight?: string | undefined;
  /** Run after the HTML is inserted. */
  readonly scripts: readonly string[];
  /** Show the HTML alone: its scripts navigate the frame away. */
  readonly isScriptless?: boolean;
  /** For scripts of this page, which also get the channel. */
  readonly data?: unknown;
}

export type State = Record<string, unknown>;

type ModelMessage =
  | { readonly kind: 'update'; readonly id: string; readonly state: State }
  | {
      readonly kind: 'custom';
      readonly id: string;
      readonly content: unknown;
      readonly buffers: readonly (ArrayBuffer | ArrayBufferView)[];
    };

/** A message of an output may have any form: the receiver validates it. */
export type FromFrame =
  | ModelMessage
  | { readonly kind: 'height'; readonly height: number }
  | { readonly kind: 'link'; readonly href: unknown; readonly download: unknown }
  | { readonly kind: 'missing'; readonly address: unknown }
  | { readonly kind: 'refused'; readonly address: unknown; readonly directive: unknown }
  | { readonly kind: 'error'; readonly message: unknown }
  /** The view cannot be shown. */
  | { readonly kind: 'failed'; readonly message: unknown }
  /** Requests a widget's model, or a file of its package. */
  | {
      readonly kind: 'ask';
      readonly what: 'model' | 'file';
      readonly name: unknown;
      readonly question: number;
    };

export interface SentModel {
  readonly name: string;
  readonly module: string;
  readonly version: string;
  readonly state: State;
}

export type ToFrame =
  | ModelMessage
  | { readonly kind: 'answer'; readonly question: number; readonly answer: SentModel | string | null }
  | { readonly kind: 'unanswered'; readonly question: number; readonly message: string }
  | { readonly kind: 'closed'; readonly id: string };
