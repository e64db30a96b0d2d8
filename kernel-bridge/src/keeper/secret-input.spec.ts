import { describe, expect, it } from 'vitest';
import { type KernelMessage, type MessageHeader, PART } from '../jupyter/kernel-message.js';
import { decodeV1 } from '../jupyter/v1-frame.js';
import { SecretInput } from './journal-entries.js';

function message(msgType: string, content: string): [KernelMessage, MessageHeader] {
  const header = { msg_id: 'm', msg_type: msgType, session: 's' };
  const parts = [JSON.stringify(header), '{"msg_id":"q"}', '{"cellId":"c"}', content].map(part =>
    Buffer.from(part)
  );
  return [{ channel: 'stdin', parts: [...parts, Buffer.from('a buffer')] }, header];
}

const reply = message('input_reply', '{"value":"hunter2","status":"ok"}');

describe('[18] an answer to a question of the kernel', () => {
  it('is stored without its value when it is a password, however often it is sent', () => {
    const input = new SecretInput();
    input.inputRequested(...message('input_request', '{"prompt":"p","password":true}'));
    for (let time = 0; time < 2; time++) {
      const retained = input.withoutSecret(...reply);
      expect(retained?.includes('hunter2')).toBe(false);
      expect(retained?.includes('a buffer')).toBe(false);
      const { parts } = decodeV1(retained ?? Buffer.alloc(0));
      expect(JSON.parse(String(parts[PART.content]))).toEqual({ value: '', status: 'ok' });
      expect(JSON.parse(String(parts[PART.metadata]))).toEqual({ cellId: 'c', tpulab: { redacted: true } });
      expect(parts[PART.header]).toEqual(reply[0].parts[PART.header]);
    }
  });

  it('is stored unchanged when the question was an ordinary one', () => {
    const input = new SecretInput();
    input.inputRequested(...message('input_request', '{"prompt":"p","password":true}'));
    input.inputRequested(...message('input_request', '{"prompt":"p","password":false}'));
    expect(input.withoutSecret(...reply)).toBeNull();
  });

  it('is stored without its value when the question is unknown', () => {
    expect(new SecretInput().withoutSecret(...reply)).not.toBeNull();
  });

  it('is stored without its value even when it cannot be parsed', () => {
    const retained = new SecretInput().withoutSecret(...message('input_reply', 'hunter2'));
    expect(retained?.includes('hunter2')).toBe(false);
  });
});

describe('any other message', () => {
  it('is stored unchanged', () => {
    const input = new SecretInput();
    expect(input.withoutSecret(...message('comm_msg', '{}'))).toBeNull();
    const [{ parts }, header] = reply;
    expect(input.withoutSecret({ channel: 'shell', parts }, header)).toBeNull();
  });
});
