/**
 * What the holder of a token may do. One function, `MayDo`, is called for every request, every socket and every message;
 * `sharing/`, which knows kernels and notebooks, implements it. Routes without a declaration are only for the owner.
 */
import { type Static, Type } from '@sinclair/typebox';

/**
 * Each level includes all earlier ones. From `run` on, the holder acts as the user: such a level prevents mistakes, not
 * hostile code.
 */
export const LEVELS = ['read', 'run', 'steer', 'spend'] as const;
export type Level = (typeof LEVELS)[number];
/** `own`: actions that no level includes. */
export type Action = Level | 'own';

export type Resource =
  /** No particular resource: a list, from which the handler removes hidden items. */
  | { readonly kind: 'gateway' }
  /** The handler determines the resource, and checks again. */
  | { readonly kind: 'deferred' }
  | { readonly kind: 'notebook'; readonly path: string }
  | { readonly kind: 'kernel'; readonly id: string }
  | { readonly kind: 'remote'; readonly name: string };

const MAX_PATTERNS = 64;
const Patterns = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
  minItems: 1,
  maxItems: MAX_PATTERNS
});

/** A level, restricted to the resources that the patterns name. Absent patterns: all. */
export const Rights = Type.Object({
  level: Type.Union(LEVELS.map(level => Type.Literal(level))),
  notebooks: Type.Optional(Patterns),
  kernels: Type.Optional(Patterns),
  remotes: Type.Optional(Patterns)
});
export type Rights = Static<typeof Rights> & { readonly level: Level };

/** The sender of a request. */
export interface Actor {
  /** Null: everything. */
  readonly rights: Rights | null;
  /** A link to one notebook: valid for that file only, not for a later one at its path. */
  readonly share?: { readonly path: string; readonly stamp: NotebookStamp | null };
  /** Unix milliseconds; earlier output and actions of a kernel are hidden from the holder. */
  readonly sinceMs: number;
}

export type MayDo = (actor: Actor, action: Action, resource: Resource) => boolean;

export function includes(level: Level, action: Action): boolean {
  return action !== 'own' && LEVELS.indexOf(level) >= LEVELS.indexOf(action);
}

/** Whether one of the patterns matches it. Without patterns everything matches. */
export function isNamed(patterns: readonly string[] | undefined, name: string): boolean {
  return patterns === undefined || patterns.some(pattern => globOf(pattern).test(name));
}

const globs = new Map<string, RegExp>();

/** `**` is any path, `*` any name, `?` one character. */
function globOf(pattern: string): RegExp {
  const compiled = globs.get(pattern);
  if (compiled) return compiled;
  const source = pattern
    .split(/(\*\*\/?|\*|\?)/)
    .map(part => {
      if (part === '**/') return '(?:[^/]+/)*';
      if (part === '**') return '.*';
      if (part === '*') return '[^/]*';
      return part === '?' ? '[^/]' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    })
    .join('');
  const glob = new RegExp(`^${source}$`, 'su');
  if (globs.size >= 1_000) globs.clear();
  globs.set(pattern, glob);
  return glob;
}

/** Distinguishes a notebook from another one created later at its path. */
export const NotebookStamp = Type.Object({
  inode: Type.String(),
  bornMs: Type.Number(),
  cells: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 256 })
});
export type NotebookStamp = Static<typeof NotebookStamp>;
