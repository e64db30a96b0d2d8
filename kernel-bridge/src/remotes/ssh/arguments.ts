/** The arguments of our ssh. What the user's own configuration says of keys, hosts and proxies stays in force. */
import type { SshTarget } from './target.js';

/** A connection counts as dead after three of these without an answer. */
const ALIVE_S = 5;
const CONNECT_S = 15;

function option(name: string, value: string | number): [string, string] {
  return ['-o', `${name}=${value}`];
}

/** The connection that all else goes through. It runs no command and forwards nothing that the user's files may ask for. */
export function masterArguments(target: SshTarget, controlPath: string, askable: boolean): string[] {
  return [
    '-N',
    '-T',
    ...option('ControlMaster', 'yes'),
    ...option('ControlPath', controlPath),
    ...option('ControlPersist', 'no'),
    ...option('BatchMode', askable ? 'no' : 'yes'),
    ...option('ServerAliveInterval', ALIVE_S),
    ...option('ServerAliveCountMax', 3),
    ...option('ConnectTimeout', CONNECT_S),
    ...option('ExitOnForwardFailure', 'yes'),
    ...option('StreamLocalBindUnlink', 'yes'),
    ...option('ClearAllForwardings', 'yes'),
    ...option('RemoteCommand', 'none'),
    ...option('PermitLocalCommand', 'no'),
    ...option('ForwardAgent', 'no'),
    ...option('ForwardX11', 'no'),
    // Or its reasons stay unsaid where the user's file has `LogLevel QUIET`.
    ...option('LogLevel', 'INFO'),
    ...target.options,
    '--',
    target.destination
  ];
}

/**
 * A request to that connection. `-F none`: forwardings of the user's files must not be added, and the host name is not
 * looked up. Where the connection has gone there must be no other one in its place, so the way to the host is a dead end.
 */
export function viaMaster(controlPath: string, more: readonly string[], command?: string): string[] {
  return [
    '-F',
    'none',
    ...option('ControlPath', controlPath),
    ...option('ControlMaster', 'no'),
    ...option('BatchMode', 'yes'),
    ...option('ProxyCommand', 'false'),
    ...option('LogLevel', 'ERROR'),
    ...more,
    '--',
    'remote',
    ...(command === undefined ? [] : [command])
  ];
}

/** `-L` of a unix socket here to one there. A colon would end the path. */
export function socketForward(localPath: string, remotePath: string): string[] {
  return ['-L', `${localPath}:${remotePath}`];
}
