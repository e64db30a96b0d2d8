import { describe, expect, it } from 'vitest';
import type { WatchedMessage } from './message-watch.js';
import { PendingInput } from './kernel-rules.js';
import type { ClientRequest } from './refusal.js';

const header = { msg_id: 'm', msg_type: 'input_reply', session: 'other' };
const reply: ClientRequest = { message: { channel: 'stdin', parts: [] }, header, bytes: 10 };
const question: WatchedMessage = {
  channel: 'stdin',
  fromClient: false,
  header: { msg_id: 'q', msg_type: 'input_request', session: 'kernel' },
  parent: { msg_id: 'e', msg_type: 'execute_request', session: 'owner' },
  content: {}
};
const answer: WatchedMessage = { ...question, fromClient: true, header, parent: null };

const isOther = (session: string): boolean => session === 'other';
const isOwner = (session: string): boolean => session === 'owner';
const allClients = (): boolean => true;
const nobody = (): boolean => false;

describe('[18] a question on stdin', () => {
  it('is answered by the client that runs the cell, and by no other while it is attached', () => {
    const input = new PendingInput();
    input.watched(question);
    expect(input.refuse(reply, isOther, allClients)).toMatchObject({ code: 'input_taken' });
    expect(input.refuse(reply, isOwner, allClients)).toBeNull();
  });

  it('may be answered by another when the client that runs the cell is away', () => {
    const input = new PendingInput();
    input.watched(question);
    expect(input.refuse(reply, isOther, nobody)).toBeNull();
  });

  it('ends when it is answered, and when the kernel is restarted', () => {
    const input = new PendingInput();
    input.watched(question);
    input.watched(answer);
    expect(input.refuse(reply, isOther, allClients)).toBeNull();
    input.watched(question);
    input.forget();
    expect(input.refuse(reply, isOther, allClients)).toBeNull();
  });

  it('does not affect other messages of clients', () => {
    const input = new PendingInput();
    input.watched(question);
    const request = { ...reply, message: { channel: 'shell' as const, parts: [] } };
    expect(input.refuse(request, isOther, allClients)).toBeNull();
  });
});
