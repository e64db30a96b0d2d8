/** Headers of every answer that have nothing to do with who asks: what Jupyter's server sends, and its clients look at. */
import type { FastifyInstance } from 'fastify';
import type { BaseUrl } from './base-url.js';

/** Where Jupyter's servers take reports of browsers. They carry no token, so here they are refused like anything else. */
const REPORTS = '/api/security/csp-report';

export function addAnswerHeaders(app: FastifyInstance, base: BaseUrl): void {
  const policy = `frame-ancestors 'self'; report-uri ${base.full(REPORTS)}; default-src 'none'`;
  app.addHook('onRequest', async (_request, reply) => {
    // An answer that is opened as a page of its own may load and run nothing.
    void reply.header('content-security-policy', policy);
  });
  app.addHook('onSend', async (_request, reply) => {
    // JSON is UTF-8 by definition and has no charset; some clients compare the whole header.
    const type = reply.getHeader('content-type');
    if (typeof type === 'string' && type.startsWith('application/json')) {
      void reply.header('content-type', 'application/json');
    }
  });
}
