import type { Session } from '@jupyterlab/services';
import { expect, test } from 'vitest';
import { SessionRoutes } from './session-routes.js';

function session(id: string, kernelId: string, path = 'a.ipynb'): Session.IModel {
  return { id, path, type: 'notebook', name: path, kernel: { id: kernelId, name: 'python3' } };
}

const ids = (routes: SessionRoutes): string[] => routes.sessions().map(model => model.id);
const kernelOf = (routes: SessionRoutes, id: string): string | undefined =>
  routes.sessions().find(model => model.id === id)?.kernel?.id;

function listed(routes: SessionRoutes, place: 'jupyter' | 'bridge', ...models: Session.IModel[]): void {
  routes.sessionsListed(place, routes.ticket(), models);
}

test('merges the lists, the Jupyter server first, and knows the backend of each kernel', () => {
  const routes = new SessionRoutes();
  listed(routes, 'bridge', session('b', 'kb', 'b.ipynb'));
  listed(routes, 'jupyter', session('j', 'kj'));
  expect(ids(routes)).toEqual(['j', 'b']);
  expect(routes.kernelPlace('kb')).toBe('bridge');
  expect(routes.kernelPlace('kj')).toBe('jupyter');
  expect(routes.kernelPlace('other')).toBeNull();
});

test('a list of one backend leaves the sessions of the other alone', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('j', 'kj'));
  listed(routes, 'bridge', session('b', 'kb'));
  listed(routes, 'jupyter');
  expect(ids(routes)).toEqual(['b']);
});

test.each(['jupyter', 'bridge'] as const)(
  'a remote that lists a kernel and a session of %s under their ids gets neither, whichever list arrives first',
  place => {
    const mine = session('s', 'k', 'mine.ipynb');
    const theirs = session('s', 'k', 'theirs.ipynb');
    const first = new SessionRoutes();
    first.sessionsListed(place, first.ticket(), [mine]);
    first.sessionsListed('remote/liar', first.ticket(), [theirs]);
    const second = new SessionRoutes();
    second.kernelsListed('remote/liar', [{ id: 'k', name: 'python3' }]);
    second.sessionsListed('remote/liar', second.ticket(), [theirs]);
    second.sessionsListed(place, second.ticket(), [mine]);
    for (const routes of [first, second]) {
      expect(routes.kernelPlace('k')).toBe(place);
      expect(routes.sessions()).toEqual([mine]);
      expect(routes.sessionTarget('s')).toEqual({ place, id: 's' });
    }
  }
);

test('a remote cannot take over a kernel of another remote, unless it was removed first', () => {
  const routes = new SessionRoutes();
  routes.kernelsListed('remote/vm', [{ id: 'k', name: 'python3' }]);
  routes.kernelsListed('remote/liar', [{ id: 'k', name: 'python3' }]);
  expect(routes.kernelPlace('k')).toBe('remote/vm');
  // The same machine under another name.
  routes.forget('remote/vm');
  routes.kernelsListed('remote/again', [{ id: 'k', name: 'python3' }]);
  expect(routes.kernelPlace('k')).toBe('remote/again');
});

test('a moved session keeps the id that Lab knows', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('lab', 'k1'));
  routes.sessionRemoving('jupyter', 'lab');
  routes.sessionMoved('lab', 'bridge', session('real', 'k2'));
  routes.sessionRemoved('jupyter', 'lab', true);
  expect(routes.sessions()).toEqual([session('lab', 'k2')]);
  expect(routes.sessionTarget('lab')).toEqual({ place: 'bridge', id: 'real' });
});

test('a session that is moved away and back has one entry, on the first backend', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('lab', 'k1'));
  routes.sessionMoved('lab', 'bridge', session('b1', 'k2'));
  routes.sessionRemoving('jupyter', 'lab');
  routes.sessionRemoved('jupyter', 'lab', true);
  routes.sessionMoved('lab', 'jupyter', session('j2', 'k3'));
  routes.sessionRemoving('bridge', 'b1');
  routes.sessionRemoved('bridge', 'b1', true);
  listed(routes, 'jupyter', session('j2', 'k3'));
  listed(routes, 'bridge');
  expect(routes.sessions()).toEqual([session('lab', 'k3')]);
  expect(routes.sessionTarget('lab')).toEqual({ place: 'jupyter', id: 'j2' });
});

test('a list requested before a move does not bring the old session or its dead kernel back', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('lab', 'k1'));
  const jupyterPoll = routes.ticket();
  const bridgePoll = routes.ticket();
  routes.sessionMoved('lab', 'bridge', session('real', 'k2'));
  routes.sessionRemoving('jupyter', 'lab');
  routes.sessionRemoved('jupyter', 'lab', true);
  routes.sessionsListed('jupyter', jupyterPoll, [session('lab', 'k1')]);
  routes.sessionsListed('bridge', bridgePoll, []);
  expect(routes.sessions()).toEqual([session('lab', 'k2')]);
});

test('a list requested while the old session is being ended does not show it', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('lab', 'k1'));
  routes.sessionRemoving('jupyter', 'lab');
  listed(routes, 'jupyter', session('lab', 'k1'));
  expect(ids(routes)).toEqual([]);
  routes.sessionRemoved('jupyter', 'lab', true);
  listed(routes, 'jupyter', session('lab', 'k1'));
  expect(ids(routes)).toEqual([]);
  listed(routes, 'jupyter');
  listed(routes, 'jupyter', session('lab', 'k9'));
  expect(kernelOf(routes, 'lab')).toBe('k9');
});

test('a shutdown that failed shows the session again', () => {
  const routes = new SessionRoutes();
  listed(routes, 'bridge', session('b', 'kb'));
  routes.sessionRemoving('bridge', 'b');
  routes.sessionRemoved('bridge', 'b', false);
  listed(routes, 'bridge', session('b', 'kb'));
  expect(ids(routes)).toEqual(['b']);
});

test('a new kernel of the same session survives a list from before', () => {
  const routes = new SessionRoutes();
  listed(routes, 'bridge', session('b', 'k1'));
  const poll = routes.ticket();
  routes.sessionSeen('bridge', session('b', 'k2'));
  routes.sessionsListed('bridge', poll, [session('b', 'k1')]);
  expect(kernelOf(routes, 'b')).toBe('k2');
  listed(routes, 'bridge', session('b', 'k3'));
  expect(kernelOf(routes, 'b')).toBe('k3');
});

test('of two lists that arrive out of order, the later request counts', () => {
  const routes = new SessionRoutes();
  const first = routes.ticket();
  const second = routes.ticket();
  routes.sessionsListed('bridge', second, [session('b', 'k2')]);
  routes.sessionsListed('bridge', first, [session('b', 'k1'), session('c', 'k3')]);
  expect(ids(routes)).toEqual(['b']);
  expect(kernelOf(routes, 'b')).toBe('k2');
});

test('an alias is removed with its session', () => {
  const routes = new SessionRoutes();
  listed(routes, 'jupyter', session('lab', 'k1'));
  routes.sessionMoved('lab', 'bridge', session('real', 'k2'));
  routes.sessionRemoving('jupyter', 'lab');
  routes.sessionRemoved('jupyter', 'lab', true);
  listed(routes, 'bridge');
  expect(ids(routes)).toEqual([]);
  expect(routes.sessionTarget('lab')).toBeNull();
});
