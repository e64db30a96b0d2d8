/**
 * The prefix under which the gateway is served, for a proxy that forwards paths unchanged. Routes are registered without
 * it: it is removed from every request and upgrade before any other code reads the path, and added to every path that is
 * sent to a client.
 */
import { ServeError } from '@tpulab/platform/errors.js';

/** Replaces a path outside the prefix: it does not begin with a slash, so no route can match it. */
const UNROUTED_PATH = '*outside';

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

  /** `/api/kernels/x` as a client must request it. */
  full(path: string): string {
    return this.path + path.slice(1);
  }

  /** The request target without the prefix. */
  inner(target: string): string {
    if (this.path === '/') return target;
    if (target.startsWith(this.path)) return `/${target.slice(this.path.length)}`;
    const bare = this.path.slice(0, -1);
    if (target === bare || target.startsWith(`${bare}?`)) return `/${target.slice(bare.length)}`;
    // The query is preserved: it may contain the token, and only a client with a token learns whether a path exists.
    const mark = target.indexOf('?');
    return mark < 0 ? UNROUTED_PATH : UNROUTED_PATH + target.slice(mark);
  }
}
