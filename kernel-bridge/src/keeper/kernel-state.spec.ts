import { describe, expect, it } from 'vitest';
import { KernelState } from './kernel-state.js';

function running(): { state: KernelState; changes: () => number } {
  let changes = 0;
  const state = new KernelState(() => changes++);
  state.ready();
  return { state, changes: () => changes };
}

function apply(state: KernelState, status: string, msgType: string, msgId: string, subshell?: string): void {
  const parent = {
    msg_id: msgId,
    msg_type: msgType,
    session: 's',
    ...(subshell && { subshell_id: subshell })
  };
  state.status(status, parent, JSON.stringify(parent));
}

describe('[21] the state of a kernel', () => {
  it('is starting until the kernel has answered, then idle', () => {
    const state = new KernelState(() => undefined);
    expect(state.executionState).toBe('starting');
    state.ready();
    expect(state).toMatchObject({ executionState: 'idle', reason: null, busyParent: null });
  });

  it('follows the status of work', () => {
    const { state } = running();
    apply(state, 'busy', 'execute_request', 'a');
    expect(state.executionState).toBe('busy');
    expect(JSON.parse(state.busyParent!)).toMatchObject({ msg_id: 'a' });
    apply(state, 'idle', 'execute_request', 'a');
    expect(state).toMatchObject({ executionState: 'idle', busyParent: null });
  });

  it.each([
    'kernel_info_request',
    'comm_info_request',
    'debug_request',
    'interrupt_request',
    'shutdown_request'
  ])('does not flip for a %s, nor end with it', msgType => {
    const { state, changes } = running();
    const before = changes();
    apply(state, 'busy', msgType, 'a');
    expect([state.executionState, changes()]).toEqual(['idle', before]);
    apply(state, 'busy', 'execute_request', 'b');
    apply(state, 'idle', msgType, 'a');
    expect(state.executionState).toBe('busy');
  });

  it('does not flip for a status without a parent', () => {
    const { state } = running();
    state.status('busy', null, '{}');
    expect(state.executionState).toBe('idle');
  });

  it('is not idle because an older request has ended', () => {
    const { state } = running();
    apply(state, 'busy', 'execute_request', 'a');
    apply(state, 'busy', 'execute_request', 'b');
    apply(state, 'idle', 'execute_request', 'a');
    expect(state.executionState).toBe('busy');
    apply(state, 'idle', 'execute_request', 'b');
    expect(state.executionState).toBe('idle');
  });

  it('is busy while any subshell is, and names the work of the main shell first', () => {
    const { state } = running();
    apply(state, 'busy', 'comm_msg', 'c', 'sub');
    apply(state, 'busy', 'execute_request', 'a');
    expect(JSON.parse(state.busyParent!)).toMatchObject({ msg_id: 'a' });
    apply(state, 'idle', 'execute_request', 'a');
    expect(JSON.parse(state.busyParent!)).toMatchObject({ msg_id: 'c' });
    apply(state, 'idle', 'comm_msg', 'c', 'sub');
    expect(state.executionState).toBe('idle');
  });

  it('drops the work of a process that has ended', () => {
    const { state } = running();
    apply(state, 'busy', 'execute_request', 'a');
    state.restarting('killed by SIGKILL');
    expect(state).toMatchObject({
      executionState: 'restarting',
      reason: 'killed by SIGKILL',
      busyParent: null
    });
    state.ready();
    expect(state).toMatchObject({ executionState: 'idle', reason: null });
  });

  it('stays dead until an explicit restart', () => {
    const { state } = running();
    state.dead('exited with code 1');
    expect(() => state.ready()).toThrow(/dead/);
    apply(state, 'busy', 'execute_request', 'a');
    expect(state).toMatchObject({ executionState: 'dead', reason: 'exited with code 1' });
    state.restarting('restart requested');
    state.ready();
    expect(state.executionState).toBe('idle');
  });

  it('keeps the session of the kernel, and reports a change once', () => {
    const { state, changes } = running();
    const before = changes();
    state.seenSession('x');
    state.seenSession('x');
    expect([state.session, changes()]).toEqual(['x', before + 1]);
  });
});
