import { describe, expect, it } from 'vitest';
import { hostKeyQuestion } from '../prompts.js';

const PRINT = 'SHA256:zI1bIMiw3c4KwYeXA2e14JdZmgLn8Njh4X5x6hedC2c';

describe('a question about a host key', () => {
  // Prompt of OpenSSH 9.2; 10.1 has a colon after "is".
  it.each(['is', 'is:'])('is parsed ("fingerprint %s")', is => {
    const text = `The authenticity of host 'vm (198.51.100.23)' can't be established.
ED25519 key fingerprint ${is} ${PRINT}.
This key is not known by any other names.
Are you sure you want to continue connecting (yes/no/[fingerprint])? `;
    expect(hostKeyQuestion(text)).toEqual({
      type: 'ED25519',
      fingerprint: PRINT,
      address: '198.51.100.23',
      command: 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub'
    });
  });

  it('has no address if ssh names none, and no command for a key without a known file', () => {
    const text = `The authenticity of host 'tpu.1234-0' can't be established.\nDSA key fingerprint is ${PRINT}.\n`;
    expect(hostKeyQuestion(text)).toEqual({ type: 'DSA', fingerprint: PRINT, address: null, command: null });
  });

  it('does not match any other question', () => {
    expect(hostKeyQuestion("ada@vm's password: ")).toBeNull();
    expect(hostKeyQuestion('ED25519 key fingerprint is SHA256:short.')).toBeNull();
  });
});
