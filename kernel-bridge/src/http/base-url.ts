/**
 * The prefix under which the gateway is served, for a proxy that passes paths on unchanged. Routes are registered without
 * it: it is taken off every request and upgrade before anything looks at the path, and put before every path that is told
 * to a client.
 */
import { ServeError } from '../platform/bridge-error.js';

/** What takes the place of a path outside the prefix: no route can have it, because it does not begin with a slash. */
const OUTSIDE = '*outside';

export class BaseUrl {
  /** `/` or `/some/where/`, as Jupyter writes it. */
  readonly path: string;

  constructor(given: string) {
    const inner = given.replace(/^\/+|\/+$/g, '');
    if (
      !/^(?:[\w.~!$&'()+,;=:@-]+(?:\/|$))*$/.test(inner) ||
      inner.split('/').some(part => /^\.\.?$/.test(part))
    ) {
      throw new ServeError(
        'address_unusable',
        `${JSON.stringify(given)} is not a base URL; write a path like /bridge/, without %, ? and #.`
      );
    }
    this.path = inner === '' ? '/' : `/${inner}/`;
  }

  /** `/api/kernels/x` as a client must ask for it. */
  full(path: string): string {
    return this.path + path.slice(1);
  }

  /** The request target without the prefix. */
  inner(target: string): string {
    if (this.path === '/') return target;
    if (target.startsWith(this.path)) return `/${target.slice(this.path.length)}`;
    const bare = this.path.slice(0, -1);
    if (target === bare || target.startsWith(`${bare}?`)) return `/${target.slice(bare.length)}`;
    // With its query: whether a path exists is told only to who has a token, which may be there.
    const mark = target.indexOf('?');
    return mark < 0 ? OUTSIDE : OUTSIDE + target.slice(mark);
  }
}
