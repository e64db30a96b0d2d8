/** For specs: makes a named token expire in a moment. An expiry set at its creation could pass before its client connects. */
import { readTokenFile, tokenFileIn, writeTokenFile } from '../token-store.js';

export async function expireSoon(stateDir: string, name: string): Promise<void> {
  const file = tokenFileIn(stateDir);
  const expiresAt = new Date(Date.now() + 1_000).toISOString();
  const tokens = readTokenFile(file).map(token => (token.name === name ? { ...token, expiresAt } : token));
  await writeTokenFile(file, tokens);
}
