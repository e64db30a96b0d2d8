/**
 * The required shape of a JSON value from outside: checks for the few files and frames of a keeper. Schemas of the protocol use
 * a library of some hundred modules; loading it would take half of the time until a kernel is started.
 */

export interface Shape<T> {
  /** The error and its place; null for a value of this shape. */
  readonly fault: (value: unknown, at?: string) => string | null;
  /** Never set: it carries the type. */
  readonly type?: T;
}

export type Shaped<S> = S extends Shape<infer T> ? T : never;

export function isShaped<T>(shape: Shape<T>, value: unknown): value is T {
  return shape.fault(value) === null;
}

interface TextLimits {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
}

export function text({ min = 0, max = Infinity, pattern }: TextLimits = {}): Shape<string> {
  return made(
    value =>
      typeof value === 'string' &&
      value.length >= min &&
      value.length <= max &&
      (pattern === undefined || pattern.test(value)),
    min > 0 ? 'a text that is not empty' : 'a text'
  );
}

export function number({ min = -Infinity }: { readonly min?: number } = {}): Shape<number> {
  return made(value => typeof value === 'number' && Number.isFinite(value) && value >= min, 'a number');
}

export function integer({ min = -Infinity }: { readonly min?: number } = {}): Shape<number> {
  return made(value => Number.isInteger(value) && Number(value) >= min, 'a whole number');
}

export const truth: Shape<boolean> = made(value => typeof value === 'boolean', 'true or false');

export function oneOf<const T extends string | number>(...values: readonly T[]): Shape<T> {
  return made(value => (values as readonly unknown[]).includes(value), `one of ${values.join(', ')}`);
}

export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  return { fault: (value, at) => (value === null ? null : shape.fault(value, at)) };
}

/** A value of any of these; the fault comes from the last one. */
export function either<const S extends readonly Shape<unknown>[]>(...shapes: S): Shape<Shaped<S[number]>> {
  return {
    fault: (value, at) => {
      let fault: string | null = null;
      for (const shape of shapes) {
        fault = shape.fault(value, at);
        if (fault === null) return null;
      }
      return fault;
    }
  };
}

export function list<T>(item: Shape<T>, { min = 0 }: { readonly min?: number } = {}): Shape<T[]> {
  return {
    fault: (value, at = '') => {
      if (!Array.isArray(value)) return `"${at}" is not a list`;
      if (value.length < min) return `"${at}" has less than ${min} items`;
      return firstFault(value.entries(), (index, each) => item.fault(each, `${at}/${index}`));
    }
  };
}

/** A list of two. */
export function pair<A, B>(first: Shape<A>, second: Shape<B>): Shape<[A, B]> {
  return {
    fault: (value, at = '') =>
      Array.isArray(value) && value.length === 2
        ? (first.fault(value[0], `${at}/0`) ?? second.fault(value[1], `${at}/1`))
        : `"${at}" is not a pair`
  };
}

/** An object with any names. */
export function record<T>(item: Shape<T>): Shape<Record<string, T>> {
  return {
    fault: (value, at = '') =>
      isObject(value)
        ? firstFault(Object.entries(value), (key, each) => item.fault(each, `${at}/${key}`))
        : `"${at}" is not an object`
  };
}

type Shapes = Readonly<Record<string, Shape<unknown>>>;
type ObjectOf<R extends Shapes, O extends Shapes> = {
  readonly [K in keyof R]: Shaped<R[K]>;
} & { readonly [K in keyof O]?: Shaped<O[K]> };

/** Other names are allowed too, unless it is `exact`. */
export function object<R extends Shapes>(required: R): Shape<{ readonly [K in keyof R]: Shaped<R[K]> }>;
export function object<R extends Shapes, O extends Shapes>(
  required: R,
  optional: O,
  options?: { readonly exact?: boolean }
): Shape<ObjectOf<R, O>>;
export function object(
  required: Shapes,
  optional: Shapes = {},
  { exact = false }: { readonly exact?: boolean } = {}
): Shape<unknown> {
  return {
    fault: (value, at = '') => {
      if (!isObject(value)) return `"${at}" is not an object`;
      const unknown = exact
        ? Object.keys(value).find(key => !Object.hasOwn(required, key) && !Object.hasOwn(optional, key))
        : undefined;
      if (unknown !== undefined) return `"${at}/${unknown}" is not known`;
      return (
        firstFault(Object.entries(required), (key, shape) =>
          Object.hasOwn(value, key) ? shape.fault(value[key], `${at}/${key}`) : `"${at}/${key}" is missing`
        ) ??
        firstFault(Object.entries(optional), (key, shape) =>
          Object.hasOwn(value, key) ? shape.fault(value[key], `${at}/${key}`) : null
        )
      );
    }
  };
}

function made<T>(holds: (value: unknown) => boolean, what: string): Shape<T> {
  return { fault: (value, at = '') => (holds(value) ? null : `"${at}" is not ${what}`) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function firstFault<K, V>(
  entries: Iterable<[K, V]>,
  faultOf: (key: K, value: V) => string | null
): string | null {
  for (const [key, value] of entries) {
    const fault = faultOf(key, value);
    if (fault !== null) return fault;
  }
  return null;
}
