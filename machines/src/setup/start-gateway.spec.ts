import { describe, expect, it } from 'vitest';
import type { HostGateway } from './probe-script.js';
import { mayReplace, type Newcomer, otherBuild } from './start-gateway.js';

const build = (version: string, letter: string): string => `versions/${version}-${letter.repeat(12)}`;
const OLD = build('0.9.0', 'a');
const NEW = build('0.10.0', 'b');

function running(bridge: string, starter: HostGateway['starter'] = null): HostGateway {
  return { socketPath: '/s', token: 't', gatewayId: 'g', bridge, starter };
}

function newcomer(bridge: string, more: Partial<Newcomer> = {}): Newcomer {
  return { bridge, sender: 'me', takeOver: false, ...more };
}

describe('a running gateway on a host', () => {
  it('is replaced by a newer version, and not by an older one', () => {
    const other = { sender: 'you', tookOver: false };
    expect(mayReplace(running(OLD, other), newcomer(NEW))).toBe(true);
    expect(mayReplace(running(NEW, other), newcomer(OLD))).toBe(false);
    expect(mayReplace(running(OLD), newcomer(NEW))).toBe(true);
    expect(mayReplace(running(NEW), newcomer(OLD))).toBe(false);
  });

  it('is not replaced by another build of the same version, except by the laptop that started it', () => {
    const other = build('0.10.0', 'c');
    expect(mayReplace(running(NEW), newcomer(other))).toBe(false);
    expect(mayReplace(running(NEW, { sender: 'you', tookOver: false }), newcomer(other))).toBe(false);
    expect(mayReplace(running(NEW, { sender: 'me', tookOver: false }), newcomer(other))).toBe(true);
  });

  it('is replaced if a person insists, and after that only if another person does', () => {
    expect(mayReplace(running(NEW), newcomer(OLD, { takeOver: true }))).toBe(true);
    const taken = running(OLD, { sender: 'you', tookOver: true });
    expect(mayReplace(taken, newcomer(NEW))).toBe(false);
    expect(mayReplace(taken, newcomer(NEW, { takeOver: true }))).toBe(true);
  });

  it('of an unreadable version is left alone', () => {
    expect(mayReplace(running('versions/mine'), newcomer(NEW))).toBe(false);
  });

  it('of another build is reported, with the remedy', () => {
    const older = otherBuild('vm', NEW, newcomer(OLD));
    expect(older.code).toBe('setup_other_build');
    expect(older.message).toContain(
      'On vm TPULab 0.10.0 (build bbbbbbbbbbbb) is running for another computer'
    );
    expect(older.message).toContain('Update TPULab on this computer');
    expect(older.message).toContain('--take-over');
    expect(otherBuild('vm', OLD, newcomer(NEW)).message).toContain('the same TPULab on both');
  });
});
