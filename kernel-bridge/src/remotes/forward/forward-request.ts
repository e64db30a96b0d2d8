/** Passes one request on to the gateway of a remote, and its answer back, as they stream. */
import { type Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http';
import { RemoteUnavailableError } from '../../server/errors.js';
import type { ReachableRemote } from '../contracts.js';
import { headersForClient, headersForRemote, withoutToken } from './headers.js';

export interface ForwardRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly remote: ReachableRemote;
  readonly agent: Agent;
  /** What is asked of the remote, from the slash behind its name. */
  readonly target: string;
  /** What stands before it in the client's paths. */
  readonly prefix: string;
  /** Our own headers of every answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Answers in our own name; nothing of an answer has been sent when it is called. */
  readonly fail: (error: RemoteUnavailableError) => void;
  /** The remote does not know its own token any more. */
  readonly refused: () => void;
}

/** They change nothing at the far side (RFC 9110, section 9.2.1). */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

export function forwardRequest(forward: ForwardRequest): void {
  send(forward, true);
}

function send(forward: ForwardRequest, mayRetry: boolean): void {
  const { request, response, remote, agent, target, prefix, headers, fail, refused } = forward;
  const hasBody =
    'transfer-encoding' in request.headers || Number(request.headers['content-length'] ?? 0) > 0;
  const method = request.method ?? 'GET';
  // Sent again, a restart or a start would happen twice: whatever acts gets a connection of its own, which cannot be stale.
  const isSafe = SAFE_METHODS.has(method);
  const sent = httpRequest({
    socketPath: remote.socketPath,
    agent: isSafe ? agent : false,
    method,
    path: withoutToken(target),
    headers: headersForRemote(request.rawHeaders, remote.token),
    setHost: false
  });
  let isAnswered = false;
  const gone = (): void => {
    // The client has left, or has its answer; a body that is still on its way has no reader.
    if (!response.writableFinished) sent.destroy();
  };
  response.once('close', gone);

  sent.on('response', answer => {
    isAnswered = true;
    if (answer.statusCode === 401 || answer.statusCode === 403) {
      answer.resume();
      refused();
      fail(
        new RemoteUnavailableError(remote.name, 'its gateway does not know us any more and is asked anew')
      );
      return;
    }
    response.writeHead(
      answer.statusCode ?? 500,
      answer.statusMessage,
      headersForClient(answer.rawHeaders, headers, prefix)
    );
    // Or the first bytes of a stream would wait for the second.
    response.flushHeaders();
    response.socket?.setNoDelay(true);
    answer.on('error', () => response.destroy());
    answer.on('aborted', () => response.destroy());
    answer.pipe(response);
  });
  sent.on('error', error => {
    if (isAnswered) return void response.destroy();
    response.off('close', gone);
    if (response.destroyed) return;
    // A connection that was kept for the next request may have been closed just now; nothing has been sent on it.
    if (mayRetry && isSafe && sent.reusedSocket && !hasBody && /ECONNRESET|EPIPE/.test(codeOf(error))) {
      send(forward, false);
      return;
    }
    fail(
      new RemoteUnavailableError(
        remote.name,
        `its gateway did not answer (${codeOf(error) || error.message})`
      )
    );
  });

  if (hasBody) request.pipe(sent);
  else sent.end();
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}
